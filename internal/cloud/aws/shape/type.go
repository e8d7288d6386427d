// Package shape decides what an EC2 instance type gives a node: its labels, its capacity, and what is left of that for pods
// under a node class. It holds the formulas and the tables behind them.
//
// Everything is a pure function of an Type (what EC2 says of a type) and Settings (what a class and the controller's
// options say); nothing is looked up, and what it returns is never changed afterwards. Quantities are integers in the
// engine's units: millicores, bytes, pieces.
package shape

import "strings"

// Architectures by the names that Kubernetes has for them.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Type is an instance type as EC2 describes it, in EC2's units.
type Type struct {
	Name string
	// Arch is AMD64 or ARM64.
	Arch string
	// UsageClasses are the ways to buy it: on-demand, spot, capacity-block.
	UsageClasses []string
	// Hypervisor is nitro, xen, or empty for bare metal.
	Hypervisor   string
	BareMetal    bool
	Manufacturer string
	// ClockGHz is 0 where EC2 does not state it.
	ClockGHz float64
	Features []string

	VCPUs     int64
	MemoryMiB int64

	// DiskGB is the size of all local disks, DiskNVMe whether they are NVMe.
	DiskGB   int64
	DiskNVMe bool
	// EBSMbps is the highest bandwidth to volumes; 0 where it is not given by default.
	EBSMbps int64
	// EBSAttachments is how many volumes can be attached, with the root volume; 0 where EC2 does not state it. EBSShared says that
	// network interfaces take from the same number.
	EBSAttachments int64
	EBSShared      bool

	Cards       []Card
	DefaultCard int
	IPv4PerENI  int64
	ENA         bool
	MaxEFAs     int64
	// EncryptsTransit is whether traffic between instances is encrypted by the hardware.
	EncryptsTransit bool
	// Enclaves is whether it can run Nitro enclaves.
	Enclaves bool

	GPUs       []Device
	Inference  []Device
	Neuron     []NeuronDevice
	Placements []string
}

// Card is one network card.
type Card struct {
	Index        int
	MaxENIs      int64
	BaselineGbps float64
}

// Device is a kind of accelerator.
type Device struct {
	Name, Manufacturer string
	Count, MemoryMiB   int64
}

// NeuronDevice is a kind of Neuron accelerator, each with Cores cores.
type NeuronDevice struct {
	Name         string
	Count, Cores int64
}

// Family is the part of the name before the dot.
func (m *Type) Family() string {
	family, _, _ := strings.Cut(m.Name, ".")
	return family
}

// DefaultENIs is how many interfaces the default card takes.
func (m *Type) DefaultENIs() int64 {
	card, _ := m.card(m.DefaultCard)
	return card.MaxENIs
}

// card returns the card with that index.
func (m *Type) card(index int) (Card, bool) {
	for _, c := range m.Cards {
		if c.Index == index {
			return c, true
		}
	}
	return Card{}, false
}
