// Command gencatalog writes the instance catalogue of the AWS simulator
// (internal/cloud/simaws/catalog/data). It has two sources:
//
//   - files: the instance type and offering tables that the moto project ships,
//     the interface limits of the VPC resource controller, and a price list in
//     the form of ec2instances.info;
//   - a live account (-live): everything that AWS itself answers, asked through
//     the aws command with whatever credentials it finds. Branch interface
//     counts come from the present catalogue, because no AWS API returns them.
//
// Usage:
//
//	go run ./tools/gencatalog -moto DIR -limits limits.go -prices instances.json
//	go run ./tools/gencatalog -live -regions us-east-1,us-west-2
//
// With -regions only those region tables are written, the others are kept.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"karpenter/internal/cloud/simaws/catalog"
)

// model is what the sources fill and the writer writes.
type model struct {
	types   map[string]*catalog.Type
	regions map[string]*catalog.Region
	prices  priceTable
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gencatalog:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "internal/cloud/simaws/catalog/data", "directory to write to")
	moto := flag.String("moto", "", "moto's ec2/resources directory")
	limits := flag.String("limits", "", "limits.go of the VPC resource controller")
	prices := flag.String("prices", "", "instances.json in the form of ec2instances.info")
	live := flag.Bool("live", false, "ask AWS through the aws command")
	regions := flag.String("regions", "", "comma separated regions; empty means all that the source has")
	flag.Parse()

	var wanted []string
	if *regions != "" {
		wanted = strings.Split(*regions, ",")
	}
	m := &model{types: map[string]*catalog.Type{}, regions: map[string]*catalog.Region{}, prices: priceTable{}}
	var err error
	switch {
	case *live && len(wanted) > 0:
		err = m.readLive(wanted)
	case *live:
		err = fmt.Errorf("-live needs -regions")
	case *moto == "" || *limits == "" || *prices == "":
		err = fmt.Errorf("give -moto, -limits and -prices, or -live")
	default:
		err = m.readFiles(*moto, *limits, *prices)
	}
	if err != nil {
		return err
	}
	m.price()
	return m.write(*out, wanted)
}

func (m *model) readFiles(moto, limits, prices string) error {
	if err := m.readMoto(moto); err != nil {
		return err
	}
	if err := m.readLimits(limits); err != nil {
		return err
	}
	return m.prices.readList(prices)
}

// write puts the tables into dir. Types that no written region offers stay: a
// later refresh of another region may need them.
func (m *model) write(dir string, wanted []string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.types)) {
		b.WriteString(catalog.FormatType(m.types[name]))
		b.WriteByte('\n')
	}
	if err := writeGzip(filepath.Join(dir, "types.tsv.gz"), b.String()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m.regions)) {
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			continue
		}
		if err := writeGzip(filepath.Join(dir, name+".tsv.gz"), catalog.FormatRegion(m.regions[name])); err != nil {
			return err
		}
	}
	fmt.Printf("wrote %d types and %d regions to %s\n", len(m.types), len(m.regions), dir)
	return nil
}

// writeGzip leaves name and time out of the header, so that equal data gives
// equal bytes.
func writeGzip(path, text string) error {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write([]byte(text)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, buf.Bytes(), 0o644)
}
