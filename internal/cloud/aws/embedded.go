package aws

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"strconv"
	"strings"
	"time"
)

//go:embed data/prices.txt.gz
var priceFile []byte

// fallbackRegion has prices for regions that the file lacks.
const fallbackRegion = "us-east-1"

// embeddedPrices reads a region's on-demand prices from the binary, and the day they are from. own is false when they are
// those of fallbackRegion. The file has a line "date 2026-07-20", and for each region a line "region NAME" followed by
// lines "FAMILY SIZE=PRICE SIZE=PRICE".
func embeddedPrices(region string) (list map[string]float64, at time.Time, own bool) {
	tables := map[string]map[string]float64{region: nil, fallbackRegion: nil}
	unzip, err := gzip.NewReader(bytes.NewReader(priceFile))
	if err != nil {
		return nil, at, false
	}
	current := ""
	lines := bufio.NewScanner(unzip)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "date":
			at, _ = time.Parse(time.DateOnly, rest)
			continue
		case "region":
			current = rest
			continue
		}
		if _, wanted := tables[current]; wanted {
			if tables[current] == nil {
				tables[current] = map[string]float64{}
			}
			readPrices(tables[current], word, rest)
		}
	}
	if tables[region] != nil {
		return tables[region], at, true
	}
	return tables[fallbackRegion], at, false
}

func readPrices(table map[string]float64, family, entries string) {
	for _, entry := range strings.Fields(entries) {
		size, price, _ := strings.Cut(entry, "=")
		if p, err := strconv.ParseFloat(price, 64); err == nil && p > 0 {
			table[family+"."+size] = p
		}
	}
}
