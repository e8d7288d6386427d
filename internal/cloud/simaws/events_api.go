package simaws

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

// eventsInput has the fields of the EventBridge requests.
type eventsInput struct {
	Name, Rule, NamePrefix, EventBusName, EventPattern, State, Description, NextToken string
	Limit                                                                             *int
	Targets                                                                           []ruleTarget
	Ids                                                                               []string
	Entries                                                                           []putEvent
}

// putEvent is an event as PutEvents takes it.
type putEvent struct {
	Source, DetailType, Detail, EventBusName string
	Resources                                []string
	// Time is in seconds since 1970; zero means now.
	Time float64
}

// Bounds of EventBridge.
const (
	maxPutEvents  = 10
	maxEventsPage = 100
)

// eventsRequest reads a request and refuses buses that do not exist: there is
// only the default one.
func (c *call) eventsRequest() (*eventsInput, error) {
	in := &eventsInput{}
	if err := c.decode(in); err != nil {
		return nil, err
	}
	return in, c.defaultBus(in.EventBusName)
}

func (c *call) defaultBus(name string) error {
	if name == "" || name == "default" || name == c.arn("events", "event-bus/default") {
		return nil
	}
	return fail("ResourceNotFoundException", "Event bus %s does not exist.", name)
}

func (c *call) eventRule(name string) (*rule, error) {
	if r := c.reg.Rules.get(name); r != nil {
		return r, nil
	}
	return nil, fail("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

func putRule(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, fail("ValidationException", "The request must contain the parameter Name.")
	}
	var pattern map[string]any
	if err := json.Unmarshal([]byte(in.EventPattern), &pattern); err != nil {
		return nil, fail("InvalidEventPatternException", "Event pattern is not valid. Reason: %v", err)
	}
	r := c.reg.Rules.get(in.Name)
	if r == nil {
		r = &rule{Name: in.Name}
	}
	r.Pattern, r.State, r.Description = in.EventPattern, orDefault(in.State, "ENABLED"), in.Description
	c.reg.Rules.put(r.Name, r)
	return map[string]string{"RuleArn": c.arn("events", "rule/"+r.Name)}, nil
}

func putTargets(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	r, err := c.eventRule(in.Rule)
	if err != nil {
		return nil, err
	}
	for _, t := range in.Targets {
		r.Targets = slices.DeleteFunc(r.Targets, func(o ruleTarget) bool { return o.Id == t.Id })
		r.Targets = append(r.Targets, t)
	}
	return map[string]any{"FailedEntryCount": 0, "FailedEntries": []any{}}, nil
}

func removeTargets(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	r, err := c.eventRule(in.Rule)
	if err != nil {
		return nil, err
	}
	failed := []map[string]string{}
	for _, id := range in.Ids {
		if !slices.ContainsFunc(r.Targets, func(o ruleTarget) bool { return o.Id == id }) {
			failed = append(failed, map[string]string{"TargetId": id, "ErrorCode": "ResourceNotFoundException", "ErrorMessage": "Rule " + r.Name + " has no target " + id + "."})
		}
	}
	r.Targets = slices.DeleteFunc(r.Targets, func(o ruleTarget) bool { return slices.Contains(in.Ids, o.Id) })
	return map[string]any{"FailedEntryCount": len(failed), "FailedEntries": failed}, nil
}

func (c *call) ruleJSON(r *rule) map[string]string {
	return map[string]string{
		"Name": r.Name, "Arn": c.arn("events", "rule/"+r.Name), "EventPattern": r.Pattern, "State": r.State,
		"Description": r.Description, "EventBusName": "default",
	}
}

func describeRule(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	r, err := c.eventRule(in.Name)
	if err != nil {
		return nil, err
	}
	return c.ruleJSON(r), nil
}

// paging is the page that a request asks for.
func (in *eventsInput) paging() paging {
	return paging{size: in.Limit, token: in.NextToken, limit: maxEventsPage, bad: fail("ValidationException", "")}
}

func listRules(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	all := []map[string]string{}
	for r := range c.reg.Rules.each {
		if strings.HasPrefix(r.Name, in.NamePrefix) {
			all = append(all, c.ruleJSON(r))
		}
	}
	part, next, err := pageOf(all, in.paging())
	if err != nil {
		return nil, err
	}
	return listing("Rules", part, "NextToken", next), nil
}

func listTargetsByRule(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	r, err := c.eventRule(in.Rule)
	if err != nil {
		return nil, err
	}
	part, next, err := pageOf(r.Targets, in.paging())
	if err != nil {
		return nil, err
	}
	return listing("Targets", part, "NextToken", next), nil
}

func deleteRule(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	if r := c.reg.Rules.get(in.Name); r != nil && len(r.Targets) > 0 {
		return nil, fail("ValidationException", "Rule can't be deleted since it has targets.")
	}
	c.reg.Rules.delete(in.Name)
	return struct{}{}, nil
}

func putEvents(c *call) (any, error) {
	in, err := c.eventsRequest()
	if err != nil {
		return nil, err
	}
	if n := len(in.Entries); n < 1 || n > maxPutEvents {
		return nil, fail("ValidationException", "1 validation error detected: Value at 'entries' failed to satisfy constraint: Member must have length between 1 and %d, not %d", maxPutEvents, n)
	}
	out, failed := []map[string]string{}, 0
	for _, e := range in.Entries {
		id, err := c.putEvent(e)
		if err != nil {
			failed++
			out = append(out, map[string]string{"ErrorCode": err.Code, "ErrorMessage": err.Message})
			continue
		}
		out = append(out, map[string]string{"EventId": id})
	}
	return map[string]any{"FailedEntryCount": failed, "Entries": out}, nil
}

// putEvent checks one event and sends it on.
func (c *call) putEvent(e putEvent) (string, *apiError) {
	switch {
	case e.Source == "":
		return "", fail("InvalidArgument", "Parameter Source is not valid. Reason: Source is a required argument.")
	case e.DetailType == "":
		return "", fail("InvalidArgument", "Parameter DetailType is not valid. Reason: DetailType is a required argument.")
	case strings.HasPrefix(e.Source, "aws."):
		return "", fail("NotAuthorizedForSourceException", "Not authorized for the source.").withStatus(http.StatusForbidden)
	case c.defaultBus(e.EventBusName) != nil:
		// No rule is on a bus that does not exist, so nobody wants the event.
		return c.uuid(), nil
	}
	var detail map[string]any
	if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
		return "", fail("MalformedDetail", "Detail is malformed.")
	}
	at := c.at
	if e.Time > 0 {
		at = time.Unix(int64(e.Time), 0)
	}
	if e.Resources == nil {
		e.Resources = []string{}
	}
	return c.dispatch(at, event{DetailType: e.DetailType, Source: e.Source, Detail: detail, Resources: e.Resources}), nil
}

// eventsOperations is the EventBridge part of the operation table.
var eventsOperations = map[string]*operation{
	"PutRule":           {json: putRule, writes: true},
	"PutTargets":        {json: putTargets, writes: true},
	"RemoveTargets":     {json: removeTargets, writes: true},
	"DescribeRule":      {json: describeRule},
	"ListRules":         {json: listRules},
	"ListTargetsByRule": {json: listTargetsByRule},
	"DeleteRule":        {json: deleteRule, writes: true},
	"PutEvents":         {json: putEvents, writes: true},
}
