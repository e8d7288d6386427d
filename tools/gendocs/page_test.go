package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	reference   = "../../docs/reference"
	chartFolder = "../../charts/karpenter"
)

func TestPagesAreCurrent(t *testing.T) {
	all, err := pages(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 7 {
		t.Errorf("%d pages, want one each for NodePool, NodeClaim, EC2NodeClass, ClusterAPINodeClass, NodeOverlay, CapacityBuffer and the chart", len(all))
	}
	output, err := outputPages("../..")
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(all, output)
	for name, want := range all {
		has, err := os.ReadFile(filepath.Join(reference, name))
		if err != nil || string(has) != want {
			t.Errorf("docs/reference/%s is out of date (%v); run: go run ./tools/gendocs", name, err)
		}
	}
}

func TestTypesAreCurrent(t *testing.T) {
	want, err := typeDeclarations("../..")
	if err != nil {
		t.Fatal(err)
	}
	if has, err := os.ReadFile(filepath.Join("../..", typesFile)); err != nil || string(has) != want {
		t.Errorf("%s is out of date (%v); run: go run ./tools/gendocs", typesFile, err)
	}
}

// TestEveryFieldIsDescribed: a page says of every field what it is and what it may hold.
func TestEveryFieldIsDescribed(t *testing.T) {
	all, err := pages(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	delete(all, "chart.md")
	for name, text := range all {
		sections := strings.Split(text, "\n### `")[1:]
		if len(sections) < 15 {
			t.Errorf("%s has %d fields", name, len(sections))
		}
		seen := map[string]bool{}
		for _, section := range sections {
			path, rest, _ := strings.Cut(section, "`\n\n")
			if strings.HasPrefix(rest, "- Type") && strings.Count(path, ".") > 0 {
				t.Errorf("%s: %s has no description", name, path)
			}
			if seen[anchor(path)] {
				t.Errorf("%s: two fields share the anchor %s", name, anchor(path))
			}
			seen[anchor(path)] = true
			if !strings.Contains(text, "](#"+anchor(path)+")") {
				t.Errorf("%s: %s is not in the table", name, path)
			}
		}
	}
	class := all["ec2nodeclass.md"]
	for _, want := range []string{
		"### `spec.metadataOptions.httpPutResponseHopLimit`", "- Default: `1`", "- At most 64", "One of `RAID0`",
		"### `spec.blockDeviceMappings[].ebs.volumeInitializationRate`",
	} {
		if !strings.Contains(class, want) {
			t.Errorf("ec2nodeclass.md lacks %q", want)
		}
	}
}

// TestChartValues: the page has every value, with its note and its type.
func TestChartValues(t *testing.T) {
	text, err := chartPage(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `settings.clusterName` | string | `\"\"` | ", "| `webhook.port` | integer | `8443` | ", "| `replicas` | integer | `2` | ",
		"| `serviceAccount.annotations` | object | `{}` | With IRSA: eks.amazonaws.com/role-arn. EKS Pod Identity needs none. |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if rows := strings.Count(text, "\n| `"); rows < 60 {
		t.Errorf("%d values", rows)
	}
}
