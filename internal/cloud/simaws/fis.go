package simaws

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// experiment is a FIS template or a run of one. Only spot interruptions are
// understood, because only they are used on nodes.
type experiment struct {
	ID, Template, Description, Role string
	Targets                         map[string]fisTarget
	Actions                         map[string]fisAction
	At                              time.Time
	Status, Reason                  string
	Tags                            map[string]string
}

type fisTarget struct {
	ResourceType  string            `json:"resourceType"`
	ResourceArns  []string          `json:"resourceArns,omitempty"`
	ResourceTags  map[string]string `json:"resourceTags,omitempty"`
	SelectionMode string            `json:"selectionMode"`
}

type fisAction struct {
	ActionId   string            `json:"actionId"`
	Parameters map[string]string `json:"parameters"`
	Targets    map[string]string `json:"targets"`
}

const (
	spotInterruption = "aws:ec2:send-spot-instance-interruptions"
	spotResource     = "aws:ec2:spot-instance"
	// spotTarget is the name under which the action takes its target.
	spotTarget = "SpotInstances"
)

func invalidExperiment(format string, args ...any) *apiError {
	return fail("ValidationException", format, args...)
}

func createExperimentTemplate(c *call) (any, error) {
	var in struct {
		Description, RoleArn string
		Targets              map[string]fisTarget
		Actions              map[string]fisAction
		Tags                 map[string]string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(in.Targets) {
		if err := in.Targets[name].check(name); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(in.Actions) {
		a := in.Actions[name]
		if a.ActionId != spotInterruption {
			return nil, invalidExperiment("action %s: the simulator knows only %s, not %q", name, spotInterruption, a.ActionId)
		}
		if _, ok := in.Targets[a.Targets[spotTarget]]; !ok {
			return nil, invalidExperiment("action %s: its target %s is %q, which is not a target of the template", name, spotTarget, a.Targets[spotTarget])
		}
	}
	e := &experiment{ID: c.id("EXT", 16), Description: in.Description, Role: in.RoleArn, Targets: in.Targets, Actions: in.Actions, Tags: orEmpty(in.Tags), At: c.at}
	c.reg.Experiments.put(e.ID, e)
	return c.templateJSON(e), nil
}

// check refuses a target that could not be resolved later.
func (t fisTarget) check(name string) *apiError {
	if t.ResourceType != spotResource {
		return invalidExperiment("target %s: the simulator knows only the resource type %s, not %q", name, spotResource, t.ResourceType)
	}
	if (len(t.ResourceArns) > 0) == (len(t.ResourceTags) > 0) {
		return invalidExperiment("target %s: give either resourceArns or resourceTags", name)
	}
	if _, ok := t.share(1); !ok {
		return invalidExperiment("target %s: selectionMode %q must be ALL, COUNT(n) or PERCENT(n)", name, t.SelectionMode)
	}
	return nil
}

// share is how many of n resources the selection mode takes.
func (t fisTarget) share(n int) (int, bool) {
	if t.SelectionMode == "ALL" {
		return n, true
	}
	kind, rest, _ := strings.Cut(t.SelectionMode, "(")
	digits, closed := strings.CutSuffix(rest, ")")
	want, err := strconv.Atoi(digits)
	switch ok := closed && err == nil && want > 0; {
	case ok && kind == "COUNT":
		return min(want, n), true
	case ok && kind == "PERCENT" && want <= 100:
		return n * want / 100, true
	}
	return 0, false
}

// resolve lists the live spot instances that a target means.
func (c *call) resolve(t fisTarget) []*instance {
	var all []*instance
	for in := range c.reg.Instances.each {
		if in.Lifecycle != "spot" || !in.alive() || !t.means(in, c.arn("ec2", "instance/"+in.ID)) {
			continue
		}
		all = append(all, in)
	}
	n, _ := t.share(len(all))
	return all[:n]
}

func (t fisTarget) means(in *instance, arn string) bool {
	if len(t.ResourceArns) > 0 {
		return slices.Contains(t.ResourceArns, arn)
	}
	for _, k := range sortedKeys(t.ResourceTags) {
		if v, ok := in.Tags.get(k); !ok || v != t.ResourceTags[k] {
			return false
		}
	}
	return true
}

func errExperiment(kind, id string) *apiError {
	return fail("ResourceNotFoundException", "%s %s not found", kind, id).withStatus(http.StatusNotFound)
}

func (c *call) experimentTemplate(id string) (*experiment, error) {
	if e := c.reg.Experiments.get(id); e != nil && e.Template == "" {
		return e, nil
	}
	return nil, errExperiment("Experiment template", id)
}

func (c *call) templateJSON(e *experiment) map[string]any {
	return map[string]any{"experimentTemplate": map[string]any{
		"id": e.ID, "arn": c.arn("fis", "experiment-template/"+e.ID), "description": e.Description, "roleArn": e.Role,
		"creationTime": e.At.Unix(), "lastUpdateTime": e.At.Unix(), "targets": e.Targets, "actions": e.Actions,
		"stopConditions": []any{map[string]string{"source": "none"}}, "tags": e.Tags,
	}}
}

func deleteExperimentTemplate(c *call) (any, error) {
	e, err := c.experimentTemplate(c.rest[0])
	if err != nil {
		return nil, err
	}
	c.reg.Experiments.delete(e.ID)
	return c.templateJSON(e), nil
}

func startExperiment(c *call) (any, error) {
	var in struct {
		ExperimentTemplateId string
		Tags                 map[string]string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	t, err := c.experimentTemplate(in.ExperimentTemplateId)
	if err != nil {
		return nil, err
	}
	run := &experiment{
		ID: c.id("EXP", 16), Template: t.ID, Role: t.Role, Targets: t.Targets, Actions: t.Actions, Tags: orEmpty(in.Tags),
		At: c.at, Status: "completed", Reason: "Experiment completed.",
	}
	for _, name := range sortedKeys(t.Actions) {
		hit := c.resolve(t.Targets[t.Actions[name].Targets[spotTarget]])
		if len(hit) == 0 {
			run.Status, run.Reason = "failed", fmt.Sprintf("Target resolution returned empty set (target %s).", t.Actions[name].Targets[spotTarget])
			break
		}
		for _, i := range hit {
			c.interrupt(i, c.at)
		}
	}
	c.reg.Experiments.put(run.ID, run)
	return c.experimentJSON(run), nil
}

func (c *call) experimentJSON(e *experiment) map[string]any {
	state := map[string]string{"status": e.Status, "reason": e.Reason}
	actions := map[string]any{}
	for name, a := range e.Actions {
		actions[name] = map[string]any{
			"actionId": a.ActionId, "parameters": a.Parameters, "targets": a.Targets, "state": state,
			"startTime": e.At.Unix(), "endTime": e.At.Unix(),
		}
	}
	return map[string]any{"experiment": map[string]any{
		"id": e.ID, "arn": c.arn("fis", "experiment/"+e.ID), "experimentTemplateId": e.Template, "roleArn": e.Role,
		"creationTime": e.At.Unix(), "startTime": e.At.Unix(), "endTime": e.At.Unix(), "state": state,
		"targets": e.Targets, "actions": actions, "tags": e.Tags,
	}}
}

func getExperiment(c *call) (any, error) {
	e := c.reg.Experiments.get(c.rest[0])
	if e == nil || e.Template == "" {
		return nil, errExperiment("Experiment", c.rest[0])
	}
	return c.experimentJSON(e), nil
}

// fisOperations is the FIS part of the operation table.
var fisOperations = map[string]*operation{
	"CreateExperimentTemplate": {json: createExperimentTemplate, writes: true},
	"DeleteExperimentTemplate": {json: deleteExperimentTemplate, writes: true},
	"StartExperiment":          {json: startExperiment, writes: true},
	"GetExperiment":            {json: getExperiment},
}
