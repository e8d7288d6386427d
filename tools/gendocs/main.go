// Command gendocs writes the reference pages of our kinds (docs/reference/nodepool.md and so on) from their definitions in
// api/crds: a section per field with its type, default, validation and description. The text is that of the definitions,
// so that kubectl explain and the pages say the same. docs/reference/chart.md lists the values of the chart, docs/reference/output.md
// and the JSON schemas below docs/reference/schema describe what commands and the HTTP API write for programs, and
// internal/web/types/api.d.ts what the HTTP API writes, for the type checker of the dashboard.
//
// Usage:
//
//	go run ./tools/gendocs [-out docs/reference] [-chart charts/karpenter]
package main

import (
	"flag"
	"fmt"
	"os"

	"karpenter/api/crds"
)

func main() {
	out := flag.String("out", "docs/reference", "folder to write to")
	chart := flag.String("chart", "charts/karpenter", "folder of the chart")
	flag.Parse()
	all, err := pages(*chart)
	if err == nil {
		err = writePages(*out, all)
	}
	if err == nil {
		all, err = outputPages(".")
	}
	if err == nil {
		err = writePages(*out, all)
	}
	if err == nil {
		err = writeTypes()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func writeTypes() error {
	text, err := typeDeclarations(".")
	if err != nil {
		return err
	}
	return writePages(".", map[string]string{typesFile: text})
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
