// Package crds holds the CRDs of our API kinds, as generated from the Go types, so that the program can
// install them itself. It decides nothing and touches nothing; the YAML beside it is never edited by hand.
package crds

import (
	"embed"
	"io/fs"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Files returns the manifests by file name, for those who write them to disk or into a chart.
func Files() map[string][]byte {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		panic("listing the embedded CRDs: " + err.Error())
	}
	manifests := make(map[string][]byte, len(names))
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic("reading the embedded CRD " + name + ": " + err.Error())
		}
		manifests[name] = data
	}
	return manifests
}

// Objects returns a fresh copy of every CRD, sorted by file name. The files are part of the program and are
// checked by this package's tests, so one that cannot be read is a broken build and panics.
func Objects() []*apiextensionsv1.CustomResourceDefinition {
	manifests := Files()
	names := make([]string, 0, len(manifests))
	for name := range manifests {
		names = append(names, name)
	}
	slices.Sort(names)
	objects := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		object := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(manifests[name], object); err != nil {
			panic("decoding the embedded CRD " + name + ": " + err.Error())
		}
		objects = append(objects, object)
	}
	return objects
}
