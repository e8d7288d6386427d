package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cli/builtin"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// defaultRegion is assumed of a cluster whose nodes and pools name none.
const defaultRegion = "us-east-1"

// facts is what the built-in catalogue depends on.
type facts struct {
	region  string
	guessed bool
	zones   []string
	// classes are those of the list, of which there are listed, and then plain ones for names that it does not explain.
	classes []cloud.KnownClass
	listed  int
}

// className names a class.
type className struct {
	kind *cloud.Kind
	name string
}

// kindOfRef is the kind that a pool's reference names; the first where it names none, and nil where nobody here knows it.
func kindOfRef(ref *karpv1.NodeClassReference) *cloud.Kind {
	if ref.Kind == "" {
		return known[0].Kind
	}
	for _, k := range classKinds() {
		if k.Is(ref) {
			return k
		}
	}
	return nil
}

// readFacts finds region, zones and node classes in a Kubernetes List.
func readFacts(list []byte) (*facts, error) {
	var doc struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &doc); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	f, names := &facts{}, map[className]bool{{known[0].Kind, state.AnyClass}: true} // for pools of -f, and for nodes that no pool made
	seen := places{regions: map[string]int{}, zones: map[string]bool{}}
	for _, raw := range doc.Items {
		if bytes.Contains(raw[:min(len(raw), 64)], []byte(`"kind":"Pod",`)) {
			continue // most of the list, and of no interest
		}
		var item struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec json.RawMessage `json:"spec"`
		}
		if json.Unmarshal(raw, &item) != nil {
			continue // whoever reads the objects says what is wrong with them
		}
		switch item.Kind {
		case "Node", "NodeClaim":
			seen.regions[item.Metadata.Labels[world.LabelRegion]]++
			seen.zones[item.Metadata.Labels[world.LabelZone]] = true
		case "NodePool":
			var spec poolNames
			if json.Unmarshal(item.Spec, &spec) == nil {
				ref := spec.Template.Spec.NodeClassRef
				names[className{kindOfRef(&ref), ref.Name}] = true
				seen.note(&spec)
			}
		default:
			kind := kindNamed(item.APIVersion, item.Kind)
			if kind == nil {
				continue
			}
			class, err := readClass(kind, raw)
			if err != nil {
				return nil, err
			}
			f.classes = append(f.classes, class)
		}
	}
	f.listed = len(f.classes)
	for _, class := range f.classes {
		delete(names, className{class.Kind, class.GetName()})
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b className) int { return cmp.Compare(a.name, b.name) }) {
		if name.name != "" && name.kind != nil {
			plain := cloud.KnownClass{Kind: name.kind, NodeClass: name.kind.New()}
			plain.SetName(name.name)
			f.classes = append(f.classes, plain)
		}
	}
	seen.settle(f)
	return f, nil
}

// listedClasses are the node classes of a Kubernetes List.
func listedClasses(list []byte) ([]cloud.KnownClass, error) {
	f, err := readFacts(list)
	if err != nil {
		return nil, err
	}
	return f.classes[:f.listed], nil
}

// places counts where nodes are and pools may make them.
type places struct {
	regions map[string]int
	zones   map[string]bool
}

// settle decides on the region, and on its zones.
func (p *places) settle(f *facts) {
	delete(p.regions, "")
	delete(p.zones, "")
	f.zones = slices.Sorted(maps.Keys(p.zones))
	if len(p.regions) == 0 {
		for _, z := range f.zones {
			p.regions[strings.TrimRight(z, "abcdef")]++
		}
	}
	for _, r := range slices.Sorted(maps.Keys(p.regions)) {
		if f.region == "" || p.regions[r] > p.regions[f.region] {
			f.region = r
		}
	}
	if f.region == "" {
		f.region, f.guessed = defaultRegion, true
	}
	f.zones = slices.DeleteFunc(f.zones, func(z string) bool { return !strings.HasPrefix(z, f.region) })
}

// poolNames is the part of a pool that names a class, zones and regions.
type poolNames struct {
	Template struct {
		Spec struct {
			NodeClassRef karpv1.NodeClassReference `json:"nodeClassRef"`
			Requirements []struct {
				Key, Operator string
				Values        []string
			} `json:"requirements"`
		} `json:"spec"`
	} `json:"template"`
}

// note takes over the places that a pool asks for.
func (p *places) note(pool *poolNames) {
	for _, r := range pool.Template.Spec.Requirements {
		if r.Operator != "In" {
			continue
		}
		for _, v := range r.Values {
			switch r.Key {
			case world.LabelRegion:
				p.regions[v]++
			case world.LabelZone:
				p.zones[v] = true
			}
		}
	}
}

// builtInCache keeps the catalogue that was worked out last.
type builtInCache struct {
	mu    sync.Mutex
	key   string
	found map[string]*dump.Catalog
	words string
}

// load works the built-in catalogue out, unless the last one was for the same. words says what it is.
func (c *builtInCache) load(ctx context.Context, f *facts) (catalogues map[string]*dump.Catalog, words string, err error) {
	key, err := json.Marshal([]any{f.region, f.zones, f.classes})
	if err != nil {
		return nil, "", fmt.Errorf("reading the built-in catalogue: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == string(key) {
		return c.found, c.words, nil
	}
	found := map[string]*dump.Catalog{}
	var built *builtin.Catalogue
	var unsold []string // classes that only a controller knows
	for i := range known {
		of := slices.DeleteFunc(slices.Clone(f.classes), func(c cloud.KnownClass) bool { return c.Kind != known[i].Kind })
		if len(of) == 0 {
			continue
		}
		if known[i].Load == nil {
			for _, c := range of {
				unsold = append(unsold, c.Kind.GroupVersionKind.Kind+" "+c.GetName())
			}
			continue
		}
		if built, err = known[i].Load(ctx, builtin.Query{Region: f.region, Zones: f.zones, Classes: of}); err != nil {
			return nil, "", err
		}
		for name, types := range built.Types {
			found[name] = dump.NewCatalog(types.Resources, types.List)
		}
	}
	c.key, c.found, c.words = string(key), found, worded(f, built, unsold)
	return c.found, c.words, nil
}

// worded says where prices are from.
func worded(f *facts, built *builtin.Catalogue, unsold []string) string {
	var words string
	switch {
	case built == nil:
	case built.From != f.region:
		words = fmt.Sprintf("prices are the built-in list of %s for %s, as those of %s are not known", built.PricesAt.Format(time.DateOnly), built.From, f.region)
	default:
		words = fmt.Sprintf("prices are the built-in list of %s for %s, spot prices typical ones", built.PricesAt.Format(time.DateOnly), f.region)
	}
	if built != nil && f.guessed {
		words += ", as no node says which region this is"
	}
	if len(unsold) > 0 {
		words = strings.TrimPrefix(words+"; only its controller knows what can be launched from "+strings.Join(unsold, ", "), "; ")
	}
	return words
}
