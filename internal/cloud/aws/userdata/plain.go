package userdata

import (
	"strings"
)

// cloudInitTypes are how cloud-init tells a document by its first line, and the type that each has in an archive.
// The longer beginning stands first.
var cloudInitTypes = []struct{ begins, contentType string }{
	{"#cloud-config-archive", "text/cloud-config-archive"},
	{"#cloud-config-jsonp", "text/cloud-config-jsonp"},
	{"#cloud-config", "text/cloud-config"},
	{"#cloud-boothook", "text/cloud-boothook"},
	{"#include-once", "text/x-include-once-url"},
	{"#include", "text/x-include-url"},
	{"#part-handler", "text/part-handler"},
	{"## template: jinja", "text/jinja2"},
}

// userParts turns spec.userData into parts of an archive: an archive is taken apart, anything else becomes one part.
// A NodeConfig is recognised only where the image has something that reads it.
func userParts(userData string, nodeConfigs bool) ([]part, error) {
	text := userData
	for strings.TrimSpace(text) != "" {
		line, rest, _ := strings.Cut(text, "\n")
		if strings.TrimSpace(line) != "" {
			break
		}
		text = rest
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	firstLine := lineAt(userData, len(userData)-len(text))
	// What a script or an archive is, its first bytes say. Only YAML can begin with blanks.
	trimmed := strings.TrimLeft(text, " \t")
	switch {
	case isArchive(trimmed):
		return readArchive(trimmed, firstLine)
	case strings.HasPrefix(trimmed, "#!"):
		return []part{newShellPart(trimmed)}, nil
	}
	for _, kind := range cloudInitTypes {
		if strings.HasPrefix(trimmed, kind.begins) {
			return []part{newPart(kind.contentType, trimmed)}, nil
		}
	}
	if nodeConfigs && isNodeConfig(text) {
		if err := checkNodeConfig(text, firstLine); err != nil {
			return nil, err
		}
		return []part{newPart(typeNodeConfig, text)}, nil
	}
	// Without its first line the kernel does not know what to run the script with.
	return []part{newShellPart("#!/bin/bash\n" + trimmed)}, nil
}
