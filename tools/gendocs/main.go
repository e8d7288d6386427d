// Command gendocs writes the reference pages of our kinds (docs/reference/nodepool.md and so on) from their definitions in
// api/crds: a section per field with its type, default, validation and description. The text is that of the definitions,
// so that kubectl explain and the pages say the same. docs/reference/chart.md lists the values of the chart.
//
// Usage:
//
//	go run ./tools/gendocs [-out docs/reference] [-chart charts/karpenter]
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"karpenter/api/crds"
)

func main() {
	out := flag.String("out", "docs/reference", "folder to write to")
	chart := flag.String("chart", "charts/karpenter", "folder of the chart")
	flag.Parse()
	pages, err := pages(*chart)
	if err == nil {
		err = write(*out, pages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

// pages are the texts by file name.
func pages(chart string) (map[string]string, error) {
	texts := map[string]string{}
	text, err := chartPage(chart)
	if err != nil {
		return nil, err
	}
	texts["chart.md"] = text
	for _, definition := range crds.Objects() {
		text, err := page(definition)
		if err != nil {
			return nil, err
		}
		texts[definition.Spec.Names.Singular+".md"] = text
	}
	return texts, nil
}

func write(folder string, pages map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(pages[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
