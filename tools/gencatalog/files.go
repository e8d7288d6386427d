package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/cloud/simaws/catalog"
)

// offering is a row of DescribeInstanceTypeOfferings.
type offering struct{ InstanceType, Location string }

func (m *model) readMoto(dir string) error {
	var types map[string]*awsType
	if err := readGzipJSON(filepath.Join(dir, "instance_types.json.gz"), &types); err != nil {
		return err
	}
	for name, t := range types {
		m.types[name] = t.convert()
	}
	paths, err := filepath.Glob(filepath.Join(dir, "instance_type_offerings", "availability-zone", "*.json.gz"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no zone offerings under %s (%v)", dir, err)
	}
	for _, p := range paths {
		region := strings.TrimSuffix(filepath.Base(p), ".json.gz")
		var byName, byID []offering
		if err := readGzipJSON(p, &byName); err != nil {
			return err
		}
		if err := readGzipJSON(strings.Replace(p, "availability-zone", "availability-zone-id", 1), &byID); err != nil {
			return err
		}
		m.addRegion(region, byName, pairZones(byName, byID))
	}
	return nil
}

// pairZones gives each zone name an id. The pairing differs between AWS
// accounts, so any fixed one is as true as another: both are taken in order.
func pairZones(byName, byID []offering) []catalog.Zone {
	names, ids := locations(byName), locations(byID)
	var out []catalog.Zone
	for i, n := range names {
		z := catalog.Zone{Name: n, ID: n}
		if i < len(ids) {
			z.ID = ids[i]
		}
		out = append(out, z)
	}
	return out
}

func locations(rows []offering) []string {
	set := map[string]bool{}
	for _, r := range rows {
		set[r.Location] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// addRegion stores a region's offers, leaving out types without a description.
func (m *model) addRegion(name string, rows []offering, zones []catalog.Zone) {
	bit := map[string]uint64{}
	for i, z := range zones {
		bit[z.Name] = 1 << i
	}
	masks := map[string]uint64{}
	for _, r := range rows {
		if m.types[r.InstanceType] != nil {
			masks[r.InstanceType] |= bit[r.Location]
		}
	}
	reg := &catalog.Region{Name: name, Zones: zones}
	for _, t := range slices.Sorted(maps.Keys(masks)) {
		reg.Offers = append(reg.Offers, catalog.Offer{Type: t, ZoneMask: masks[t]})
	}
	m.regions[name] = reg
}

func readGzipJSON(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// readLimits takes the branch interface counts out of the VPC resource
// controller's Go table without linking it.
func (m *model) readLimits(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := kv.Key.(*ast.BasicLit)
		lit, ok2 := kv.Value.(*ast.CompositeLit)
		if !ok || !ok2 || key.Kind != token.STRING {
			return true
		}
		name, err := strconv.Unquote(key.Value)
		if t := m.types[name]; err == nil && t != nil {
			if branch, trunk := branchLimits(lit); trunk {
				t.BranchENIs = branch
			}
			found++
		}
		return false
	})
	if found == 0 {
		return fmt.Errorf("%s holds no limits of known types", path)
	}
	return nil
}

func branchLimits(lit *ast.CompositeLit) (branch int, trunk bool) {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := kv.Key.(*ast.Ident); key.Name {
		case "BranchInterface":
			if v, ok := kv.Value.(*ast.BasicLit); ok {
				branch, _ = strconv.Atoi(v.Value)
			}
		case "IsTrunkingCompatible":
			v, ok := kv.Value.(*ast.Ident)
			trunk = ok && v.Name == "true"
		}
	}
	return branch, trunk
}
