// Package catalog holds the facts about EC2 instance types that the AWS simulator
// serves: shape, network, storage, accelerators, the zones a type is offered
// in, and its prices. The data is generated (tools/gencatalog), stored in our
// own compact text format and embedded; data/NOTICE names the sources, their
// dates and licences. The package touches nothing but its embedded files.
package catalog

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

//go:embed data/*.gz
var files embed.FS

// Catalog is the set of all known instance types and of the regions that offer
// them. Region tables are parsed when first asked for.
type Catalog struct {
	// Types is sorted by name.
	Types []*Type

	byName  map[string]*Type
	regions []string

	mu     sync.Mutex
	loaded map[string]*Region
}

// Type is one instance type, with the fields of DescribeInstanceTypes that
// decide what fits on it, in the units the EC2 API uses.
type Type struct {
	Name string

	CurrentGeneration, BareMetal, Burstable, Hibernation bool
	DedicatedHosts, AutoRecovery, FreeTier               bool
	EFA, EnaSrd, EncryptionInTransit, IPv6               bool
	NitroEnclaves, NitroTPM                              bool

	// Hypervisor is nitro, xen, or empty for bare metal.
	Hypervisor    string
	UsageClasses  []string
	Architectures []string
	Manufacturer  string
	// ClockGHz is zero where AWS does not state it.
	ClockGHz          float64
	ProcessorFeatures []string

	VCPUs, Cores, ThreadsPerCore int
	MemoryMiB                    int

	Disks []Disk
	// DiskNVMe is the NvmeSupport value of the local disks.
	DiskNVMe string

	EBS     EBS
	Network Network

	GPUs         []Device
	Inference    []Device
	FPGAs        []Device
	Media        []Device
	Neuron       []NeuronDevice
	Placement    []string
	BootModes    []string
	RootDevices  []string
	Virtualities []string

	// BranchENIs is the number of branch interfaces a trunk on this type
	// carries; -1 where the type cannot be a trunk. AWS returns it from no API.
	BranchENIs int
}

// Disk is a kind of local disk.
type Disk struct {
	Count, SizeGB int
	Kind          string
}

// EBS is the EbsInfo of a type.
type EBS struct {
	OptimizedSupport                             string
	BaselineMbps, BaselineIOPS, MaxMbps, MaxIOPS int
	NVMe                                         string
	MaxAttachments                               int
}

// Network is the NetworkInfo of a type.
type Network struct {
	Performance            string
	Cards                  []Card
	IPv4PerENI, IPv6PerENI int
	DefaultCard            int
	EnaSupport             string
	MaxENIs                int
	MaxEFAs                int
}

// Card is one network card.
type Card struct {
	MaxENIs                  int
	BaselineGbps, PeakGbps   float64
	Performance              string
	AllowsEFA, AllowsEFAOnly bool
	AllowsENI                bool
}

// InterfaceTypes are the API's names of what the card can carry.
func (c Card) InterfaceTypes() []string {
	var out []string
	if c.AllowsENI {
		out = append(out, "interface")
	}
	if c.AllowsEFA {
		out = append(out, "efa")
	}
	if c.AllowsEFAOnly {
		out = append(out, "efa-only")
	}
	return out
}

// Device is a GPU, inference, FPGA or media accelerator.
type Device struct {
	Name, Manufacturer string
	Count, MemoryMiB   int
}

// NeuronDevice is a Neuron accelerator with its cores.
type NeuronDevice struct {
	Name                           string
	Count, MemoryMiB, Cores, CoreV int
}

// TotalDiskGB is the size of all local disks together.
func (t *Type) TotalDiskGB() int {
	n := 0
	for _, d := range t.Disks {
		n += d.Count * d.SizeGB
	}
	return n
}

// Family is the part of the name before the dot.
func (t *Type) Family() string {
	f, _, _ := strings.Cut(t.Name, ".")
	return f
}

// Supports reports whether the type can be bought in the given usage class
// (on-demand, spot or capacity-block).
func (t *Type) Supports(usage string) bool { return slices.Contains(t.UsageClasses, usage) }

// Region is what one region offers.
type Region struct {
	Name  string
	Zones []Zone
	// Offers is sorted by type name.
	Offers []Offer

	byType map[string]int
}

// Zone is an availability zone under its account-specific name and its id.
type Zone struct{ Name, ID string }

// Offer says in which zones a region has a type and at what price.
type Offer struct {
	Type string
	// ZoneMask has bit i set when the type is offered in Region.Zones[i].
	ZoneMask uint64
	// OnDemand and Spot are USD per hour; 0 means that it is not sold so.
	OnDemand, Spot float64
	// OnDemandEstimated and SpotEstimated mark figures that no source states
	// and that were derived from the nearest older sibling.
	OnDemandEstimated, SpotEstimated bool
}

// Offer returns the region's offer of a type.
func (r *Region) Offer(typeName string) (Offer, bool) {
	i, ok := r.byType[typeName]
	if !ok {
		return Offer{}, false
	}
	return r.Offers[i], true
}

// InZone reports whether the region offers the type in the zone.
func (r *Region) InZone(typeName, zone string) bool {
	o, ok := r.Offer(typeName)
	if !ok {
		return false
	}
	for i, z := range r.Zones {
		if z.Name == zone {
			return o.ZoneMask&(1<<i) != 0
		}
	}
	return false
}

// Load reads the embedded catalogue. The result is shared and must not be
// changed.
func Load() (*Catalog, error) { return load() }

var load = sync.OnceValues(func() (*Catalog, error) {
	raw, err := readFile("types")
	if err != nil {
		return nil, err
	}
	types, err := ParseTypes(raw)
	if err != nil {
		return nil, err
	}
	c := &Catalog{Types: types, byName: make(map[string]*Type, len(types)), loaded: map[string]*Region{}}
	for _, t := range types {
		c.byName[t.Name] = t
	}
	entries, err := files.ReadDir("data")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded catalogue: %w", err)
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".tsv.gz")
		if name != "types" {
			c.regions = append(c.regions, name)
		}
	}
	return c, nil
})

// Only is a catalogue of one region with some of the types only: it takes a fraction of the time to describe.
func (c *Catalog) Only(region string, keep func(*Type) bool) (*Catalog, error) {
	whole, err := c.Region(region)
	if err != nil {
		return nil, err
	}
	out := &Catalog{byName: map[string]*Type{}, regions: []string{region}}
	r := &Region{Name: region, Zones: whole.Zones, byType: map[string]int{}}
	for _, t := range c.Types {
		o, sold := whole.Offer(t.Name)
		if !sold || !keep(t) {
			continue
		}
		out.Types, out.byName[t.Name] = append(out.Types, t), t
		r.byType[t.Name] = len(r.Offers)
		r.Offers = append(r.Offers, o)
	}
	out.loaded = map[string]*Region{region: r}
	return out, nil
}

// Type returns the type of that name, or nil.
func (c *Catalog) Type(name string) *Type { return c.byName[name] }

// Regions lists the regions of the catalogue, sorted.
func (c *Catalog) Regions() []string { return slices.Clone(c.regions) }

// Region returns a region's table.
func (c *Catalog) Region(name string) (*Region, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.loaded[name]; r != nil {
		return r, nil
	}
	if !slices.Contains(c.regions, name) {
		return nil, fmt.Errorf("region %q is not in the catalogue; known: %s", name, strings.Join(c.regions, ", "))
	}
	raw, err := readFile(name)
	if err != nil {
		return nil, err
	}
	r, err := ParseRegion(name, raw)
	if err != nil {
		return nil, err
	}
	c.loaded[name] = r
	return r, nil
}

func readFile(name string) (string, error) {
	raw, err := files.ReadFile("data/" + name + ".tsv.gz")
	if err != nil {
		return "", fmt.Errorf("reading the embedded catalogue: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	return string(text), nil
}
