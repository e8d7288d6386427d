package scenarios

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/pack"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// cluster is a scenario's input.
type cluster struct {
	objects  *dump.Objects
	catalog  *dump.Catalog
	state    state.Options
	options  pack.Options
	workload map[string]string // by pod UID
	show     map[string]bool
	next     int

	// for decisions about nodes
	now        time.Time
	nominated  map[string]time.Time
	busy       map[string]string
	hold       map[string]string
	turn       map[string]bool
	past       []disrupt.Past
	spotToSpot bool
	repair     []life.RepairPolicy
	// terminateFirst says that nodes in full reservations may be removed first.
	terminateFirst bool
}

// words is a line: a verb, a name, and key=value arguments, of which some may repeat.
type words struct {
	verb, name string
	args       [][2]string
	line       string
}

func (w words) all(key string) []string {
	var out []string
	for _, a := range w.args {
		if a[0] == key {
			out = append(out, a[1])
		}
	}
	return out
}

func (w words) get(key, fallback string) string {
	if v := w.all(key); len(v) > 0 {
		return v[len(v)-1]
	}
	return fallback
}

func (w words) has(key string) bool { return len(w.all(key)) > 0 }

// fields splits at blanks outside double quotes.
func fields(line string) []string {
	var out []string
	var b strings.Builder
	quoted := false
	for _, r := range line + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			if b.Len() > 0 {
				out = append(out, b.String())
				b.Reset()
			}
		default:
			b.WriteRune(r)
		}
	}
	return out
}

func parse(input string) (*cluster, error) {
	c := &cluster{objects: &dump.Objects{Ignored: map[string]int{}}, catalog: &dump.Catalog{}, workload: map[string]string{}, show: map[string]bool{}}
	c.now, c.nominated, c.busy = monday, map[string]time.Time{}, map[string]string{}
	c.hold, c.turn = map[string]string{}, map[string]bool{}
	c.state.Aliases = map[string]string{"topology.ebs.csi.aws.com/zone": corev1.LabelTopologyZone}
	c.state.ProviderDomains = []string{"karpenter.k8s.aws"}
	c.state.NodeOverlays = true
	lines := strings.Split(input, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(line, "#") || line == "solve" || line == "consolidate" || strings.HasPrefix(line, "explain ") {
			continue
		}
		if line == "object" {
			var block []string
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") {
				i++
				block = append(block, lines[i])
			}
			if err := c.object(strings.Join(block, "\n")); err != nil {
				return nil, err
			}
			continue
		}
		w := words{line: line}
		for k, f := range fields(line) {
			switch key, value, ok := strings.Cut(f, "="); {
			case k == 0:
				w.verb = f
			case k == 1 && !ok:
				w.name = f
			default:
				w.args = append(w.args, [2]string{key, value})
			}
		}
		if err := c.add(w); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
	}
	if len(c.catalog.InstanceTypes) == 0 {
		c.defaultCatalog()
	}
	return c, nil
}

func (c *cluster) add(w words) error {
	switch w.verb {
	case "type":
		return c.addType(w)
	case "pool":
		return c.addPool(w)
	case "node", "claim":
		return c.addNode(w)
	case "pods", "pod", "daemon":
		return c.addPods(w)
	case "buffer":
		return c.addBuffer(w)
	case "pv", "pvc", "sc", "csinode", "namespace", "pdb", "service":
		return c.addOther(w)
	case "option":
		return c.addOption(w)
	case "now", "nominate", "busy", "past":
		return c.addAround(w)
	case "repair":
		return c.addRepair(w)
	case "overlay":
		return c.addOverlay(w)
	case "show":
		c.show[w.name] = true
		return nil
	}
	return fmt.Errorf("unknown word %q", w.verb)
}

func (c *cluster) addOption(w words) error {
	switch w.name {
	case "ignore-preferences":
		c.options.IgnorePreferences = true
	case "best-effort":
		c.options.BestEffortMinValues = true
	case "spot-to-spot":
		c.spotToSpot = true
	case "terminate-first":
		c.terminateFirst = true
	case "no-new-nodes":
		c.options.NoNewNodes = true
	case "max-types":
		n, err := strconv.Atoi(w.get("n", ""))
		c.options.MaxTypes = n
		return err
	case "default-spread":
		when := corev1.DoNotSchedule
		if w.has("soft") {
			when = corev1.ScheduleAnyway
		}
		c.state.DefaultSpread = append(c.state.DefaultSpread, corev1.TopologySpreadConstraint{TopologyKey: key(w.get("key", "zone")), MaxSkew: 1, WhenUnsatisfiable: when})
	default:
		return fmt.Errorf("unknown option %q", w.name)
	}
	return nil
}

// object adds any object in YAML, for what the words cannot say.
func (c *cluster) object(text string) error {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	o, problems, err := dump.Read(data)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%v", problems)
	}
	for _, p := range o.Pods {
		c.workload[string(p.UID)] = p.Name
	}
	c.objects.Add(o)
	return nil
}

// key expands the short names of label keys.
func key(short string) string {
	switch short {
	case "zone":
		return corev1.LabelTopologyZone
	case "host":
		return corev1.LabelHostname
	case "arch":
		return corev1.LabelArchStable
	case "os":
		return corev1.LabelOSStable
	case "type":
		return corev1.LabelInstanceTypeStable
	case "capacity":
		return v1.CapacityTypeLabelKey
	case "pool":
		return v1.NodePoolLabelKey
	case "family":
		return "example.com/family"
	}
	return short
}

// defaultCatalog is three families in three sizes over three zones; the larger, the slightly cheaper per core.
func (c *cluster) defaultCatalog() {
	for _, f := range []struct {
		name  string
		mem   int
		price float64
	}{{"c", 2, 0.085}, {"m", 4, 0.1}, {"r", 8, 0.125}} {
		for i, size := range []string{"large", "xlarge", "2xlarge", "4xlarge"} {
			cores := 2 << i
			_ = c.addType(words{name: f.name + "." + size, args: [][2]string{
				{"cpu", strconv.Itoa(cores)},
				{"mem", strconv.Itoa(cores*f.mem) + "Gi"},
				{"price", fmt.Sprintf("%.4f", f.price*float64(int(1)<<i)*(1-0.01*float64(i)))},
				{"spot", fmt.Sprintf("%.4f", 0.4*f.price*float64(int(1)<<i))},
				{"family", f.name},
			}})
		}
	}
}

func (c *cluster) addType(w words) error {
	t := dump.CatalogType{
		Name: w.name, Labels: labels(w.all("label")),
		Allocatable: map[string]string{"cpu": w.get("cpu", "2"), "memory": w.get("mem", "4Gi"), "pods": w.get("pods", "110"), "ephemeral-storage": w.get("disk", "100Gi")},
	}
	t.Labels[corev1.LabelArchStable], t.Labels[corev1.LabelOSStable] = w.get("arch", "amd64"), "linux"
	if f := w.get("family", ""); f != "" {
		t.Labels[key("family")] = f
	}
	for _, r := range w.all("resource") {
		k, v, _ := strings.Cut(r, ":")
		t.Allocatable[k] = v
	}
	for _, kind := range []string{"price", "spot", "reserved"} {
		if !w.has(kind) {
			continue
		}
		price, err := strconv.ParseFloat(w.get(kind, ""), 64)
		if err != nil {
			return err
		}
		model := map[string]string{"price": "on-demand", "spot": "spot", "reserved": "reserved"}[kind]
		for _, z := range strings.Split(w.get("zones", "a,b,c"), ",") {
			o := dump.CatalogOffering{Zone: z, CapacityType: model, Price: price}
			for _, gone := range w.all("out") {
				o.Unavailable = o.Unavailable || gone == z+":"+model || gone == z
			}
			if model == "reserved" {
				o.Reservation = w.get("id", "cr-1")
				o.Remaining, _ = strconv.Atoi(w.get("count", "1"))
				o.Labels = map[string]string{"example.com/reservation-id": o.Reservation}
			}
			if big := w.get("big", ""); strings.HasPrefix(big, z+":") { // an offering with more memory than its type
				o.Allocatable = map[string]string{"memory": big[len(z)+1:]}
			}
			t.Offerings = append(t.Offerings, o)
		}
	}
	c.catalog.InstanceTypes = append(c.catalog.InstanceTypes, t)
	return nil
}

// labels reads k:v pairs; the key may be short.
func labels(list []string) map[string]string {
	out := map[string]string{}
	for _, l := range list {
		k, v, _ := strings.Cut(l, ":")
		out[key(k)] = v
	}
	return out
}

// taint reads key=value:Effect or key:Effect.
func taint(text string) corev1.Taint {
	at := strings.LastIndex(text, ":")
	k, v, _ := strings.Cut(text[:at], "=")
	return corev1.Taint{Key: k, Value: v, Effect: corev1.TaintEffect(text[at+1:])}
}

// requirement reads "key Operator value,value".
func requirement(text string) (corev1.NodeSelectorRequirement, error) {
	f := strings.Fields(text)
	if len(f) < 2 {
		return corev1.NodeSelectorRequirement{}, fmt.Errorf("requirement %q: want key, operator, values", text)
	}
	r := corev1.NodeSelectorRequirement{Key: key(f[0]), Operator: corev1.NodeSelectorOperator(f[1])}
	if len(f) > 2 {
		r.Values = strings.Split(f[2], ",")
	}
	return r, nil
}

func quantities(w words, pairs ...[2]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	put := func(k, v string) error {
		q, err := resource.ParseQuantity(v)
		out[corev1.ResourceName(k)] = q
		return err
	}
	for _, p := range pairs {
		if v := w.get(p[0], ""); v != "" {
			if err := put(p[1], v); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range w.all("resource") {
		k, v, _ := strings.Cut(r, ":")
		if err := put(k, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func owner(kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: &yes}}
}
