package web

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/explain"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// horizon is how far ahead budget windows are shown.
const horizon = 7 * 24 * time.Hour

// poolsDocument is every pool, with its budgets until a moment.
type poolsDocument struct {
	model.Type
	At    time.Time    `json:"at"`
	Until time.Time    `json:"until"`
	Pools []*poolModel `json:"pools"`
}

// poolModel is a pool as the page gets it.
type poolModel struct {
	Name     string `json:"name"`
	Weight   int32  `json:"weight"`
	Class    string `json:"class,omitempty"`
	Ready    string `json:"ready"`
	Trouble  string `json:"trouble,omitempty"`
	Nodes    int    `json:"nodes"`
	Deleting int    `json:"deleting"`
	Static   bool   `json:"static,omitempty"`
	// Replicas is how many nodes a static pool is to have.
	Replicas         int64        `json:"replicas,omitempty"`
	Types            int          `json:"instanceTypes"`
	Limits           []limitModel `json:"limits,omitempty"`
	Requirements     []string     `json:"requirements,omitempty"`
	Labels           []string     `json:"labels,omitempty"`
	Taints           []string     `json:"taints,omitempty"`
	Policy           string       `json:"policy"`
	ConsolidateAfter string       `json:"consolidateAfter"`
	ExpireAfter      string       `json:"expireAfter"`
	// Evictions are those of the last hour, if there were any for cost.
	Evictions *evictionModel `json:"evictions,omitempty"`
	Budgets   []budgetModel  `json:"budgets"`
	Allowed   []allowance    `json:"allowed"`
}

// limitModel is what a pool may have of a resource, and what it has, in the way Kubernetes writes quantities.
type limitModel struct {
	Resource string  `json:"resource"`
	Used     string  `json:"used"`
	Max      string  `json:"max"`
	Share    float64 `json:"share"`
}

// budgetModel is a budget with the times at which it holds within the next days.
type budgetModel struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Duration string   `json:"duration,omitempty"`
	Active   bool     `json:"active"`
	Trouble  string   `json:"trouble,omitempty"`
	Windows  []window `json:"windows"`
}

// window is a time in which a budget holds.
type window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// allowance is how many nodes may be going for a reason, from now on.
type allowance struct {
	Reason string `json:"reason"`
	// Spans follow each other without a gap.
	Spans []span `json:"spans"`
}

// span is a time in which the same number of nodes may be going; -1 is as many as there are.
type span struct {
	window
	Nodes int `json:"nodes"`
}

// pools answers with every pool, its limits and its budgets.
func (s *Server) pools(w http.ResponseWriter, r *http.Request) {
	now, list := s.src.Now(), []*poolModel{}
	if v := s.src.View(); v != nil {
		evicted := evictions(s.src.Ledger(), v, now)
		for _, p := range v.World.Pools {
			if pool := v.Pool(p.Name); pool != nil {
				m := modelPool(v, pool, now)
				m.Evictions = evicted[p.Name]
				list = append(list, m)
			}
		}
	}
	slices.SortFunc(list, func(x, y *poolModel) int { return strings.Compare(x.Name, y.Name) })
	answer(w, r, &poolsDocument{model.TypeOf(model.KindPoolList), now.UTC(), now.Add(horizon).UTC(), list})
}

func modelPool(v *state.View, p *state.Pool, now time.Time) *poolModel {
	o, use := p.Object, v.Usage(p.World.Name)
	m := &poolModel{
		Name: o.Name, Weight: p.World.Weight, Ready: "Unknown", Trouble: p.World.Refused, Nodes: use.Nodes, Deleting: use.Leaving,
		Static: p.World.Static, Replicas: p.World.Replicas, Types: len(launchable(p.World)), Policy: string(o.Spec.Disruption.ConsolidationPolicy),
		ConsolidateAfter: o.Spec.Disruption.ConsolidateAfter.String(), ExpireAfter: o.Spec.Template.Spec.ExpireAfter.String(),
		Limits: limits(v, p, use),
	}
	if m.Policy == "" {
		m.Policy = string(v1.ConsolidationPolicyWhenEmptyOrUnderutilized)
	}
	if ref := o.Spec.Template.Spec.NodeClassRef; ref != nil {
		m.Class = ref.Kind + "/" + ref.Name
	}
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == v1.ConditionReady {
			m.Ready = string(c.Status)
			if c.Status != "True" && m.Trouble == "" {
				m.Trouble = c.Message
			}
		}
	}
	for _, r := range o.Spec.Template.Spec.Requirements {
		m.Requirements = append(m.Requirements, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ", ")))
	}
	for _, l := range p.World.Labels {
		m.Labels = append(m.Labels, l.Key+"="+l.Value)
	}
	for _, t := range p.World.Taints {
		m.Taints = append(m.Taints, t.String())
	}
	nodes, _ := v.BudgetNodes(o.Name, disrupt.Underutilized)
	m.Budgets, m.Allowed = budgets(o, nodes, now)
	return m
}

func limits(v *state.View, p *state.Pool, use state.Usage) []limitModel {
	var out []limitModel
	used := v.List(use.Capacity)
	for name, most := range p.Object.Spec.Limits {
		l := limitModel{Resource: string(name), Max: most.String()}
		have := used[name]
		if name == v1.LimitsNodes {
			have.Set(int64(use.Nodes))
		}
		l.Used = have.String()
		if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			l.Used = gibi(have.Value()) // the sum of many nodes is no round number
		}
		if limit := most.AsApproximateFloat64(); limit > 0 {
			l.Share = have.AsApproximateFloat64() / limit
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y limitModel) int { return strings.Compare(x.Resource, y.Resource) })
	return out
}

func gibi(bytes int64) string {
	return strconv.FormatFloat(math.Round(float64(bytes)/(1<<30)*10)/10, 'f', -1, 64) + "Gi"
}

// budgets says when each budget holds, and what all of them together allow for each reason.
func budgets(o *v1.NodePool, nodes int, now time.Time) ([]budgetModel, []allowance) {
	list := o.DisruptionBudgets()
	end := now.Add(horizon)
	out := make([]budgetModel, 0, len(list))
	for i := range list {
		b := &list[i]
		m := budgetModel{Nodes: b.Nodes, Windows: []window{}}
		for _, r := range b.Reasons {
			m.Reasons = append(m.Reasons, string(r))
		}
		if b.Schedule != nil {
			m.Schedule = *b.Schedule
		}
		if b.Duration != nil {
			m.Duration = b.Duration.String()
		}
		active, err := b.Active(now)
		m.Active = active
		if _, wrong := v1.ParseBudgetNodes(b.Nodes, nodes); err == nil {
			err = wrong
		}
		windows, wrong := b.Windows(now, end)
		if err == nil {
			err = wrong
		}
		if err != nil {
			m.Trouble = err.Error() + "; the pool's nodes stay until this is right"
		}
		for _, w := range windows {
			m.Windows = append(m.Windows, window{w.From.UTC(), w.To.UTC()})
		}
		out = append(out, m)
	}
	return out, allowances(o, nodes, now, end)
}

// allowances says how many nodes may be going, for each reason.
func allowances(o *v1.NodePool, nodes int, now, end time.Time) []allowance {
	var out []allowance
	for _, reason := range []disrupt.Reason{disrupt.Underutilized, disrupt.Empty, disrupt.Drifted, disrupt.Unhealthy} {
		a := allowance{Reason: string(reason)}
		for _, w := range explain.BudgetWindows(o, reason, nodes, [2]time.Time{now, end}) {
			n := w.Allowed
			if n >= v1.Unlimited {
				n = -1
			}
			if last := len(a.Spans) - 1; last >= 0 {
				a.Spans[last].To = w.From.UTC()
			}
			a.Spans = append(a.Spans, span{window{w.From.UTC(), end.UTC()}, n})
		}
		out = append(out, a)
	}
	return out
}
