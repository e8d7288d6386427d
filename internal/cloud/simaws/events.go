package simaws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// rule is an EventBridge rule of the default bus.
type rule struct {
	Name, Description, Pattern, State string
	Targets                           []ruleTarget
}

type ruleTarget struct{ Id, Arn string }

// event is an EventBridge event as it arrives at a queue.
type event struct {
	Version    string         `json:"version"`
	ID         string         `json:"id"`
	DetailType string         `json:"detail-type"`
	Source     string         `json:"source"`
	Account    string         `json:"account"`
	Time       string         `json:"time"`
	Region     string         `json:"region"`
	Resources  []string       `json:"resources"`
	Detail     map[string]any `json:"detail"`
}

// publishEvent sends an EC2 event about an instance to the rules that want it.
func (p place) publishEvent(at time.Time, detailType string, in *instance, detail map[string]any) {
	if p.reg.Rules.len() == 0 {
		return
	}
	about := p.arn("ec2", "instance/"+in.ID)
	if strings.Contains(detailType, "Interruption") || strings.Contains(detailType, "Rebalance") {
		// These name the zone instead of region and account.
		about = "arn:aws:ec2:" + in.Zone + ":instance/" + in.ID
	}
	p.dispatch(at, event{DetailType: detailType, Source: "aws.ec2", Detail: detail, Resources: []string{about}})
}

// dispatch completes an event, puts it into the queues of matching rules and
// tells its id.
func (p place) dispatch(at time.Time, e event) string {
	e.Version, e.Account, e.Region, e.Time = "0", p.acct.ID, p.reg.Name, at.UTC().Format(time.RFC3339)
	e.ID = p.uuid()
	raw, err := json.Marshal(e)
	if err != nil {
		return e.ID
	}
	var generic map[string]any
	if json.Unmarshal(raw, &generic) != nil {
		return e.ID
	}
	for r := range p.reg.Rules.each {
		if r.State == "DISABLED" || !r.matches(generic) {
			continue
		}
		for _, t := range r.Targets {
			name := t.Arn[strings.LastIndexByte(t.Arn, ':')+1:]
			if q := p.reg.Queues.get(name); q != nil && t.Arn == p.queueARN(name) {
				p.enqueue(q, &message{ID: p.uuid(), Body: string(raw), Sent: at, VisibleAt: at})
			}
		}
	}
	return e.ID
}

func (r *rule) matches(e map[string]any) bool {
	var pattern map[string]any
	if json.Unmarshal([]byte(r.Pattern), &pattern) != nil {
		return false
	}
	return patternMatches(pattern, e)
}

// patternMatches applies an event pattern: every key must match, a list holds
// alternatives, an object goes one level down.
func patternMatches(pattern, e map[string]any) bool {
	for k, want := range pattern {
		have, present := e[k]
		switch w := want.(type) {
		case map[string]any:
			h, ok := have.(map[string]any)
			if !ok || !patternMatches(w, h) {
				return false
			}
		case []any:
			values, isList := have.([]any)
			if !isList && present {
				values = []any{have}
			}
			if !slices.ContainsFunc(w, func(alt any) bool { return alternativeMatches(alt, values, present) }) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func alternativeMatches(alt any, values []any, present bool) bool {
	m, ok := alt.(map[string]any)
	if !ok {
		return slices.ContainsFunc(values, func(v any) bool { return fmt.Sprint(v) == fmt.Sprint(alt) })
	}
	for _, op := range sortedKeys(m) {
		switch arg := m[op]; op {
		case "exists":
			return (arg == true) == present
		case "prefix":
			return slices.ContainsFunc(values, func(v any) bool { return strings.HasPrefix(fmt.Sprint(v), fmt.Sprint(arg)) })
		case "suffix":
			return slices.ContainsFunc(values, func(v any) bool { return strings.HasSuffix(fmt.Sprint(v), fmt.Sprint(arg)) })
		case "anything-but":
			list, isList := arg.([]any)
			if !isList {
				list = []any{arg}
			}
			return present && !slices.ContainsFunc(values, func(v any) bool {
				return slices.ContainsFunc(list, func(x any) bool { return fmt.Sprint(x) == fmt.Sprint(v) })
			})
		}
	}
	return false
}

// interruptionRules are the events that node interruption handling lives on.
var interruptionRules = map[string]string{
	"HealthEvents":                 `{"source":["aws.health"],"detail-type":["AWS Health Event"]}`,
	"SpotInterruption":             `{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`,
	"Rebalance":                    `{"source":["aws.ec2"],"detail-type":["EC2 Instance Rebalance Recommendation"]}`,
	"InstanceStateChange":          `{"source":["aws.ec2"],"detail-type":["EC2 Instance State-change Notification"]}`,
	"CapacityReservationInterrupt": `{"source":["aws.ec2"],"detail-type":["EC2 Capacity Reservation Instance Interruption Warning"]}`,
}

// addInterruptionQueue makes the queue and rules of Options.Queue.
func (p place) addInterruptionQueue(name string) {
	p.reg.Queues.put(name, &queue{Name: name, Attributes: map[string]string{"MessageRetentionPeriod": "300"}, Tags: map[string]string{}, Created: p.now()})
	for _, n := range sortedKeys(interruptionRules) {
		r := &rule{Name: name + "-" + n, Pattern: interruptionRules[n], State: "ENABLED", Targets: []ruleTarget{{"queue", p.queueARN(name)}}}
		p.reg.Rules.put(r.Name, r)
	}
}

func (p place) sendRebalance(in *instance, at time.Time) {
	if in.alive() {
		p.publishEvent(at, "EC2 Instance Rebalance Recommendation", in, map[string]any{"instance-id": in.ID})
	}
}

// sendWarning announces the end of an instance and enters it in the agenda.
func (p place) sendWarning(in *instance, at time.Time) {
	if !in.alive() {
		return
	}
	kind := "EC2 Spot Instance Interruption Warning"
	if in.Lifecycle == "interruptible-capacity-reservation" {
		kind = "EC2 Capacity Reservation Instance Interruption Warning"
	}
	p.publishEvent(at, kind, in, map[string]any{"instance-id": in.ID, "instance-action": "terminate"})
	p.after(at, p.opt.Timing.Notice, "reclaim", in.ID)
}

// interrupt takes an instance back: the warning now, the end after the notice.
func (p place) interrupt(in *instance, at time.Time) {
	if in.Reclaim {
		return
	}
	in.Reclaim = true
	p.sendWarning(in, at)
}

func (p place) reclaim(in *instance, at time.Time) {
	if in.alive() {
		in.Reason, in.ReasonCode = "Server.SpotInstanceTermination: Spot instance termination", "Server.SpotInstanceTermination"
		p.terminate(in, at)
	}
}
