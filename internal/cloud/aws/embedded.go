package aws

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"strconv"
	"strings"
	"time"
)

//go:embed data/prices.txt.gz
var priceFile []byte

// FallbackRegion has prices for regions that the file lacks.
const FallbackRegion = "us-east-1"

// embeddedTable is a region's on-demand prices from the binary.
type embeddedTable struct {
	list map[string]float64
	// estimated counts types that the price list did not have, whose price was guessed from their older siblings.
	estimated int
	// at is the day of the price list; foreign says that it is another region's.
	at      time.Time
	foreign bool
}

// embeddedPrices reads a region's prices. The file has a line "date 2025-05-28", and for each region a line "region NAME"
// followed by lines "FAMILY SIZE=PRICE SIZE=~PRICE", where ~ marks an estimate. A test writes it from the figures of the
// AWS simulator, whose sources are named in simaws/catalog/data/NOTICE.
func embeddedPrices(region string) embeddedTable {
	var at time.Time
	tables := map[string]*embeddedTable{}
	unzip, err := gzip.NewReader(bytes.NewReader(priceFile))
	if err != nil {
		return embeddedTable{foreign: true}
	}
	current := ""
	lines := bufio.NewScanner(unzip)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "date":
			at, _ = time.Parse(time.DateOnly, rest)
			continue
		case "region":
			current = rest
			continue
		}
		if current != region && current != FallbackRegion {
			continue
		}
		if tables[current] == nil {
			tables[current] = &embeddedTable{list: map[string]float64{}, at: at, foreign: current != region}
		}
		tables[current].read(word, rest)
	}
	for _, name := range []string{region, FallbackRegion} {
		if tables[name] != nil {
			return *tables[name]
		}
	}
	return embeddedTable{foreign: true}
}

// read takes over the prices of a family.
func (t *embeddedTable) read(family, entries string) {
	for _, entry := range strings.Fields(entries) {
		size, text, _ := strings.Cut(entry, "=")
		text, guessed := strings.CutPrefix(text, "~")
		if p, err := strconv.ParseFloat(text, 64); err == nil && p > 0 {
			t.list[family+"."+size] = p
			if guessed {
				t.estimated++
			}
		}
	}
}
