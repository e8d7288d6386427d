// Package why holds the reasons that decisions carry: typed, counted, nested, and printable as one line, as a tree or as
// JSON. It decides nothing; whoever decides fills in the reasons in the same pass, so there is never a second code path
// that guesses why something happened.
package why

import (
	"fmt"
	"slices"
	"strings"
)

// Code names the kind of a reason. Codes are stable: metrics, tests and documentation refer to them.
type Code string

// The codes.
const (
	Refused      Code = "Refused"      // the pod or pool is not planned at all
	NoPool       Code = "NoPool"       // no pool can make nodes
	Taint        Code = "Taint"        // a taint is not tolerated
	Requirement  Code = "Requirement"  // labels do not match node selector or affinity
	Volume       Code = "Volume"       // labels do not match where a volume is
	Resource     Code = "Resource"     // a resource does not suffice
	Stock        Code = "Stock"        // offerings exist but are not available
	Port         Code = "Port"         // a host port is taken
	Spread       Code = "Spread"       // topology spread would be exceeded
	Affinity     Code = "Affinity"     // no matching pod in the domain
	AntiAffinity Code = "AntiAffinity" // a matching pod is in the domain
	Limit        Code = "Limit"        // a pool's limit is reached
	Moving       Code = "Moving"       // pods are on their way, or have only just been moved
	MinValues    Code = "MinValues"    // too few distinct values remain
	NearestMiss  Code = "NearestMiss"  // what would fit but for one thing
	Hint         Code = "Hint"         // a likely mistake
	Chosen       Code = "Chosen"       // why an offering was taken
	Room         Code = "Room"         // room for pods that are known to come
	Spare        Code = "Spare"        // room that is kept for a CapacityBuffer
	NextBest     Code = "NextBest"     // what the second choice would have cost
	Breaker      Code = "Breaker"      // so many nodes are unhealthy that new ones would be no better
	Relaxed      Code = "Relaxed"      // a preference was given up
)

// Reason is one statement with what it rests on.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
	// Count of Of things are meant, where that makes sense.
	Count   int      `json:"count,omitempty"`
	Of      int      `json:"of,omitempty"`
	Because []Reason `json:"because,omitempty"`
}

// New is a reason without count.
func New(code Code, format string, args ...any) Reason {
	return Reason{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Counted is a reason about count of of things.
func Counted(code Code, count, of int, text string) Reason {
	return Reason{Code: code, Text: text, Count: count, Of: of}
}

// Line prints the reason and what it rests on in one line.
func (r Reason) Line() string {
	if len(r.Because) == 0 {
		return r.Text
	}
	parts := make([]string, len(r.Because))
	for i, b := range r.Because {
		parts[i] = b.Line()
	}
	return r.Text + ": " + strings.Join(parts, "; ")
}

// Tree prints the reason with what it rests on indented below it.
func (r Reason) Tree() string {
	var b strings.Builder
	r.tree(&b, 0)
	return b.String()
}

func (r Reason) tree(b *strings.Builder, depth int) {
	fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", depth), r.Text)
	for _, c := range r.Because {
		c.tree(b, depth+1)
	}
}

// Similar is the known word that a mistyped one most likely means, or "" when none is near. Words are compared without
// case; a shorter edit distance wins, then the order of known.
func Similar(word string, known []string) string {
	best, bestAt := "", 1+min(3, len(word)/4)
	for _, k := range known {
		if k == word {
			return ""
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k), bestAt); d < bestAt {
			best, bestAt = k, d
		}
	}
	return best
}

// distance is the edit distance of a and b, or limit if it is at least that.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
		if slices.Min(row) >= limit {
			return limit
		}
	}
	return min(row[len(b)], limit)
}
