package shape

import (
	_ "embed"
	"math"
	"strconv"
	"strings"
	"sync"
)

//go:embed data/network.txt
var networkText string

// network is what is known of a type's network beyond what EC2's API says.
type network struct {
	// mbps is 0 where AWS gives no figure.
	mbps, branches int64
}

var networks = sync.OnceValue(func() map[string]network {
	table := map[string]network{}
	for line := range strings.Lines(networkText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		family, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, entry := range strings.Fields(rest) {
			size, figures, _ := strings.Cut(entry, "=")
			mbps, branches, _ := strings.Cut(figures, "/")
			table[family+"."+size] = network{atoi(mbps), atoi(branches)}
		}
	}
	return table
})

func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// bandwidth is the baseline in Mbit/s, from the table, or for a type that is newer than it from what EC2 says of the
// cards.
func bandwidth(m *Type) int64 {
	if known, ok := networks()[m.Name]; ok {
		return known.mbps
	}
	sum := 0.0
	for _, c := range m.Cards {
		sum += c.BaselineGbps
	}
	return int64(math.Round(sum * 1000))
}

// branches is how many pods can have an interface of their own.
func branches(m *Type) int64 { return networks()[m.Name].branches }
