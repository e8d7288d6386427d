package web

import (
	"time"

	"karpenter/internal/model"
	"karpenter/internal/state/dump"
)

// Documents are the kinds of documents that only the API answers with, each with a value of its type.
func Documents() map[string]any {
	return map[string]any{
		model.KindLiveFleet: liveFleet{}, model.KindPoolList: poolsDocument{}, model.KindPriceList: pricesDocument{}, model.KindHistory: historyDocument{}, model.KindCostList: model.Costs{},
		model.KindError: errorDocument{},
	}
}

// liveFleet is everything that the dashboard shows at one moment, or what has changed of it since the version From. A section that has
// not changed is missing. The hub writes it piece by piece.
type liveFleet struct {
	model.Type
	// Run names the process, and Version counts the changes that it has seen.
	Run     string    `json:"run"`
	Version uint64    `json:"version"`
	At      time.Time `json:"at"`
	// Full says that this is everything.
	Full  bool       `json:"full,omitempty"`
	From  uint64     `json:"from,omitempty"`
	Nodes []liveNode `json:"nodes"`
	// Gone are keys of nodes that are not there any more.
	Gone     []string         `json:"gone,omitempty"`
	About    *About           `json:"about,omitempty"`
	Totals   *model.Totals    `json:"totals,omitempty"`
	Savings  *savings         `json:"savings,omitempty"`
	Pending  []*model.Pending `json:"pending,omitempty"`
	Next     *next            `json:"next,omitempty"`
	Problems []dump.Problem   `json:"problems,omitempty"`
}
