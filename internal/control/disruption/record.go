package disruption

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/engine/disrupt"
)

// record is what a move writes on each claim that it takes away: which move it is, why, since when, and which claims take its
// place. It is written before anything else happens.
type record struct {
	id     string
	reason disrupt.Reason
	began  time.Time
	to     []string
	// saves is the part of each node's price that the move saves.
	saves float64
	// grace bounds the drain of a node that is repaired, nil for no bound; condition is that of the node.
	grace     *time.Duration
	condition string
	// reboot says that the nodes are rebooted, and first that they are removed before their replacement can be there. Neither is written:
	// such a move ends where it begins.
	reboot, first bool
}

func (r record) String() string {
	text := fmt.Sprintf("id=%s reason=%s began=%s to=%s", r.id, r.reason, r.began.UTC().Format(time.RFC3339), strings.Join(r.to, ","))
	if r.saves != 0 {
		text += fmt.Sprintf(" saves=%.4f", r.saves)
	}
	if r.grace != nil {
		text += " grace=" + r.grace.String()
	}
	if r.condition != "" {
		text += " condition=" + r.condition
	}
	return text
}

// decision is what metrics call it.
func (r record) decision() string {
	switch {
	case r.reboot:
		return "reboot"
	case r.first:
		return "terminate-first"
	}
	if len(r.to) > 0 {
		return "replace"
	}
	return "delete"
}

// parseRecord reads what String has written.
func parseRecord(text string) (record, error) {
	var r record
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "id":
			r.id = value
		case "reason":
			r.reason = disrupt.Reason(value)
		case "began":
			began, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return record{}, fmt.Errorf("move %q: began must be a time such as 2026-01-31T12:00:00Z: %w", text, err)
			}
			r.began = began
		case "to":
			if value != "" {
				r.to = strings.Split(value, ",")
			}
		case "saves":
			r.saves, _ = strconv.ParseFloat(value, 64) // what is no number is not counted
		case "grace":
			grace, err := time.ParseDuration(value)
			if err != nil {
				return record{}, fmt.Errorf("move %q: grace must be a duration such as 10m: %w", text, err)
			}
			r.grace = &grace
		case "condition":
			r.condition = value
		}
	}
	if r.id == "" || r.reason == "" || r.began.IsZero() {
		return record{}, fmt.Errorf("move %q: id, reason and began must be given", text)
	}
	return r, nil
}

// origin is what a move writes on each claim that it makes: which move it is, and what is replaced.
type origin struct {
	id   string
	from []disrupt.Past // without times
}

func (o origin) String() string {
	parts := make([]string, len(o.from))
	for i, p := range o.from {
		parts[i] = strings.Join([]string{p.Pool, p.Type, p.Zone, p.CapacityType}, "/")
	}
	return fmt.Sprintf("id=%s from=%s", o.id, strings.Join(parts, ","))
}
