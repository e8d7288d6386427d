package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The format: one line per type or offer, columns separated by tabs, lines that
// start with # are remarks. Lists inside a column are separated by commas, the
// fields of an item by colons. Short codes stand for the API's words so that a
// line stays readable in a diff.

const typeColumns = 25

// flags are the codes of the boolean facts, in the order they are written.
var flags = []struct {
	code  byte
	field func(*Type) *bool
}{
	{'c', func(t *Type) *bool { return &t.CurrentGeneration }},
	{'m', func(t *Type) *bool { return &t.BareMetal }},
	{'b', func(t *Type) *bool { return &t.Burstable }},
	{'h', func(t *Type) *bool { return &t.Hibernation }},
	{'d', func(t *Type) *bool { return &t.DedicatedHosts }},
	{'r', func(t *Type) *bool { return &t.AutoRecovery }},
	{'f', func(t *Type) *bool { return &t.FreeTier }},
	{'e', func(t *Type) *bool { return &t.EFA }},
	{'s', func(t *Type) *bool { return &t.EnaSrd }},
	{'t', func(t *Type) *bool { return &t.EncryptionInTransit }},
	{'6', func(t *Type) *bool { return &t.IPv6 }},
	{'n', func(t *Type) *bool { return &t.NitroEnclaves }},
	{'p', func(t *Type) *bool { return &t.NitroTPM }},
}

// FormatType writes one type as a line without its newline.
func FormatType(t *Type) string {
	var f strings.Builder
	for _, fl := range flags {
		if *fl.field(t) {
			f.WriteByte(fl.code)
		}
	}
	disks := make([]string, len(t.Disks))
	for i, d := range t.Disks {
		disks[i] = fmt.Sprintf("%d:%d:%s", d.Count, d.SizeGB, d.Kind)
	}
	neuron := make([]string, len(t.Neuron))
	for i, n := range t.Neuron {
		neuron[i] = fmt.Sprintf("%s:%d:%d:%d:%d", n.Name, n.Count, n.MemoryMiB, n.Cores, n.CoreV)
	}
	n := t.Network
	return strings.Join([]string{
		t.Name, f.String(), t.Hypervisor,
		strings.Join(t.UsageClasses, ","), strings.Join(t.Architectures, ","),
		t.Manufacturer, formatFloat(t.ClockGHz), strings.Join(t.ProcessorFeatures, ","),
		fmt.Sprintf("%d:%d:%d", t.VCPUs, t.Cores, t.ThreadsPerCore),
		strconv.Itoa(t.MemoryMiB),
		strings.Join(disks, ","), t.DiskNVMe,
		fmt.Sprintf("%s:%d:%d:%d:%d:%s:%d", t.EBS.OptimizedSupport, t.EBS.BaselineMbps, t.EBS.BaselineIOPS,
			t.EBS.MaxMbps, t.EBS.MaxIOPS, t.EBS.NVMe, t.EBS.MaxAttachments),
		n.Performance, formatCards(n.Cards),
		fmt.Sprintf("%d:%d:%d:%s:%d:%d", n.IPv4PerENI, n.IPv6PerENI, n.DefaultCard, n.EnaSupport, n.MaxENIs, n.MaxEFAs),
		formatDevices(t.GPUs), formatDevices(t.Inference), formatDevices(t.FPGAs), formatDevices(t.Media),
		strings.Join(neuron, ","),
		strings.Join(t.Placement, ","), strings.Join(t.BootModes, ","),
		strings.Join(t.RootDevices, ",") + ";" + strings.Join(t.Virtualities, ","),
		strconv.Itoa(t.BranchENIs),
	}, "\t")
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func formatDevices(ds []Device) string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = fmt.Sprintf("%s:%s:%d:%d", d.Name, d.Manufacturer, d.Count, d.MemoryMiB)
	}
	return strings.Join(out, ",")
}

// formatCards folds runs of equal cards, because the largest types have 32.
func formatCards(cards []Card) string {
	var out []string
	for i := 0; i < len(cards); {
		j := i
		for j < len(cards) && cards[j] == cards[i] {
			j++
		}
		c := cards[i]
		kinds := ""
		for _, k := range []struct {
			on   bool
			code string
		}{{c.AllowsENI, "i"}, {c.AllowsEFA, "e"}, {c.AllowsEFAOnly, "o"}} {
			if k.on {
				kinds += k.code
			}
		}
		out = append(out, fmt.Sprintf("%d:%d:%s:%s:%s:%s", j-i, c.MaxENIs, formatFloat(c.BaselineGbps), formatFloat(c.PeakGbps), kinds, c.Performance))
		i = j
	}
	return strings.Join(out, ",")
}

// FormatRegion writes a region's table.
func FormatRegion(r *Region) string {
	var b strings.Builder
	b.WriteString("zones")
	for _, z := range r.Zones {
		fmt.Fprintf(&b, "\t%s=%s", z.Name, z.ID)
	}
	b.WriteByte('\n')
	for _, o := range r.Offers {
		fmt.Fprintf(&b, "%s\t%x\t%s\t%s\n", o.Type, o.ZoneMask, formatPrice(o.OnDemand, o.OnDemandEstimated), formatPrice(o.Spot, o.SpotEstimated))
	}
	return b.String()
}

func formatPrice(p float64, estimated bool) string {
	if p == 0 {
		return "-"
	}
	s := formatFloat(p)
	if estimated {
		s += "~"
	}
	return s
}

// ParseTypes reads the table of types.
func ParseTypes(text string) ([]*Type, error) {
	var out []*Type
	for n, line := range lines(text) {
		t, err := parseType(line)
		if err != nil {
			return nil, fmt.Errorf("instance type table, line %d: %w", n, err)
		}
		out = append(out, t)
	}
	if !slices.IsSortedFunc(out, func(a, b *Type) int { return strings.Compare(a.Name, b.Name) }) {
		return nil, fmt.Errorf("instance type table is not sorted by name")
	}
	return out, nil
}

// lines yields the numbered lines that are neither empty nor remarks.
func lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.SplitSeq(text, "\n") {
			n++
			if line == "" || line[0] == '#' {
				continue
			}
			if !yield(n, line) {
				return
			}
		}
	}
}

// scanner reads fields and remembers the first error, so that a row is parsed
// without a check after each number.
type scanner struct{ err error }

func (s *scanner) int(v string) int {
	n, err := strconv.Atoi(v)
	s.note(err)
	return n
}

func (s *scanner) float(v string) float64 {
	f, err := strconv.ParseFloat(v, 64)
	s.note(err)
	return f
}

func (s *scanner) note(err error) {
	if err != nil && s.err == nil {
		s.err = err
	}
}

// fields splits a colon list that must have n fields; the last may hold colons.
func (s *scanner) fields(v string, n int) []string {
	f := strings.SplitN(v, ":", n)
	if len(f) != n {
		s.note(fmt.Errorf("%q has %d fields, want %d", v, len(f), n))
		return make([]string, n)
	}
	return f
}

func list(v string) []string {
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

func parseType(line string) (*Type, error) {
	c := strings.Split(line, "\t")
	if len(c) != typeColumns {
		return nil, fmt.Errorf("%d columns, want %d", len(c), typeColumns)
	}
	s := &scanner{}
	t := &Type{
		Name: c[0], Hypervisor: c[2], UsageClasses: list(c[3]), Architectures: list(c[4]),
		Manufacturer: c[5], ClockGHz: s.float(c[6]), ProcessorFeatures: list(c[7]),
		MemoryMiB: s.int(c[9]), DiskNVMe: c[11], Placement: list(c[21]), BootModes: list(c[22]), BranchENIs: s.int(c[24]),
	}
	for _, fl := range flags {
		*fl.field(t) = strings.IndexByte(c[1], fl.code) >= 0
	}
	cpu := s.fields(c[8], 3)
	t.VCPUs, t.Cores, t.ThreadsPerCore = s.int(cpu[0]), s.int(cpu[1]), s.int(cpu[2])
	for _, d := range list(c[10]) {
		f := s.fields(d, 3)
		t.Disks = append(t.Disks, Disk{s.int(f[0]), s.int(f[1]), f[2]})
	}
	e := s.fields(c[12], 7)
	t.EBS = EBS{e[0], s.int(e[1]), s.int(e[2]), s.int(e[3]), s.int(e[4]), e[5], s.int(e[6])}
	n := s.fields(c[15], 6)
	t.Network = Network{
		Performance: c[13], Cards: s.cards(c[14]), IPv4PerENI: s.int(n[0]), IPv6PerENI: s.int(n[1]),
		DefaultCard: s.int(n[2]), EnaSupport: n[3], MaxENIs: s.int(n[4]), MaxEFAs: s.int(n[5]),
	}
	t.GPUs, t.Inference, t.FPGAs, t.Media = s.devices(c[16]), s.devices(c[17]), s.devices(c[18]), s.devices(c[19])
	for _, d := range list(c[20]) {
		f := s.fields(d, 5)
		t.Neuron = append(t.Neuron, NeuronDevice{f[0], s.int(f[1]), s.int(f[2]), s.int(f[3]), s.int(f[4])})
	}
	roots, virt, _ := strings.Cut(c[23], ";")
	t.RootDevices, t.Virtualities = list(roots), list(virt)
	return t, s.err
}

func (s *scanner) devices(v string) []Device {
	var out []Device
	for _, d := range list(v) {
		f := s.fields(d, 4)
		out = append(out, Device{f[0], f[1], s.int(f[2]), s.int(f[3])})
	}
	return out
}

func (s *scanner) cards(v string) []Card {
	var out []Card
	for _, d := range list(v) {
		f := s.fields(d, 6)
		c := Card{
			MaxENIs: s.int(f[1]), BaselineGbps: s.float(f[2]), PeakGbps: s.float(f[3]), Performance: f[5],
			AllowsENI: strings.Contains(f[4], "i"), AllowsEFA: strings.Contains(f[4], "e"), AllowsEFAOnly: strings.Contains(f[4], "o"),
		}
		for range s.int(f[0]) {
			out = append(out, c)
		}
	}
	return out
}

// ParseRegion reads a region's table.
func ParseRegion(name, text string) (*Region, error) {
	r := &Region{Name: name, byType: map[string]int{}}
	for n, line := range lines(text) {
		c := strings.Split(line, "\t")
		if c[0] == "zones" {
			for _, z := range c[1:] {
				zn, id, _ := strings.Cut(z, "=")
				r.Zones = append(r.Zones, Zone{zn, id})
			}
			continue
		}
		if len(c) != 4 {
			return nil, fmt.Errorf("region table %s, line %d: %d columns, want 4", name, n, len(c))
		}
		s := &scanner{}
		mask, err := strconv.ParseUint(c[1], 16, 64)
		s.note(err)
		o := Offer{Type: c[0], ZoneMask: mask}
		o.OnDemand, o.OnDemandEstimated = s.price(c[2])
		o.Spot, o.SpotEstimated = s.price(c[3])
		if s.err != nil {
			return nil, fmt.Errorf("region table %s, line %d: %w", name, n, s.err)
		}
		r.byType[o.Type] = len(r.Offers)
		r.Offers = append(r.Offers, o)
	}
	return r, nil
}

func (s *scanner) price(v string) (float64, bool) {
	if v == "-" {
		return 0, false
	}
	v, estimated := strings.CutSuffix(v, "~")
	return s.float(v), estimated
}
