package simaws

import (
	"net/http"
	"strings"
	"time"
)

// zonalShift moves traffic away from a zone.
type zonalShift struct {
	ID, Resource, AwayFrom, Comment string
	Start, Expiry                   time.Time
	Cancelled                       bool
}

func (z *zonalShift) active(now time.Time) bool { return !z.Cancelled && now.Before(z.Expiry) }

func (z *zonalShift) json() map[string]any {
	return map[string]any{
		"appliedStatus": "APPLIED", "zonalShiftId": z.ID, "resourceIdentifier": z.Resource, "awayFrom": z.AwayFrom,
		"expiryTime": z.Expiry.Unix(), "startTime": z.Start.Unix(), "comment": z.Comment, "shiftType": "ZONAL_SHIFT",
	}
}

func errShiftResource(id string) *apiError {
	return fail("ResourceNotFoundException", "The input requested a resource that was not found: %s", id).withStatus(http.StatusNotFound)
}

func getManagedResource(c *call) (any, error) {
	id := c.rest[0]
	if err := c.allow("arc-zonal-shift:GetManagedResource", id, keys{"arc-zonal-shift:resourceidentifier": {id}}); err != nil {
		return nil, err
	}
	name, ok := strings.CutPrefix(id, c.arn("eks", "cluster/"))
	if !ok || c.reg.Clusters.get(name) == nil {
		return nil, errShiftResource(id)
	}
	shifts := []any{}
	away := map[string]bool{}
	for z := range c.reg.Shifts.each {
		if z.Resource == id && z.active(c.at) {
			shifts = append(shifts, z.json())
			away[z.AwayFrom] = true
		}
	}
	weights := map[string]float64{}
	for _, z := range c.reg.offers.Zones {
		weights[z.ID] = 1
		if away[z.ID] {
			weights[z.ID] = 0
		}
	}
	return map[string]any{"arn": id, "name": name, "appliedWeights": weights, "zonalShifts": shifts, "autoshifts": []any{}, "zonalAutoshiftStatus": "DISABLED"}, nil
}

func listManagedResources(c *call) (any, error) {
	items := []any{}
	for cl := range c.reg.Clusters.each {
		items = append(items, map[string]any{"arn": c.arn("eks", "cluster/"+cl.Name), "name": cl.Name, "availabilityZones": []string{}})
	}
	return map[string]any{"items": items}, nil
}

func startZonalShift(c *call) (any, error) {
	var in struct{ ResourceIdentifier, AwayFrom, ExpiresIn, Comment string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(in.ExpiresIn)
	if err != nil || d <= 0 || d > 72*time.Hour {
		return nil, fail("ValidationException", "expiresIn %q must be a time such as 30m or 2h, at most 72h", in.ExpiresIn)
	}
	name, ok := strings.CutPrefix(in.ResourceIdentifier, c.arn("eks", "cluster/"))
	if !ok || c.reg.Clusters.get(name) == nil {
		return nil, errShiftResource(in.ResourceIdentifier)
	}
	z := c.shift(in.ResourceIdentifier, in.AwayFrom, d)
	z.Comment = in.Comment
	out := z.json()
	out["status"] = "ACTIVE"
	return out, nil
}

// shift begins a zonal shift.
func (p place) shift(resource, zoneID string, d time.Duration) *zonalShift {
	now := p.now()
	z := &zonalShift{ID: p.uuid(), Resource: resource, AwayFrom: zoneID, Start: now, Expiry: now.Add(d)}
	p.reg.Shifts.put(z.ID, z)
	return z
}

func cancelZonalShift(c *call) (any, error) {
	z := c.reg.Shifts.get(c.rest[0])
	if z == nil {
		return nil, errShiftResource(c.rest[0])
	}
	z.Cancelled = true
	out := z.json()
	out["status"] = "CANCELED"
	return out, nil
}

// arcOperations is the zonal shift part of the operation table.
var arcOperations = map[string]*operation{
	"GetManagedResource":   {json: getManagedResource, authorizes: true},
	"ListManagedResources": {json: listManagedResources},
	"StartZonalShift":      {json: startZonalShift, writes: true},
	"CancelZonalShift":     {json: cancelZonalShift, writes: true},
}

// experiment is a FIS template or a run of one. Only spot interruptions are
// understood, because only they are used on nodes.
type experiment struct {
	ID, Template string
	Targets      map[string]fisTarget
	Actions      map[string]fisAction
	At           time.Time
	Status       string
}

type fisTarget struct {
	ResourceType  string            `json:"resourceType"`
	ResourceArns  []string          `json:"resourceArns"`
	ResourceTags  map[string]string `json:"resourceTags"`
	SelectionMode string            `json:"selectionMode"`
}

type fisAction struct {
	ActionId   string            `json:"actionId"`
	Parameters map[string]string `json:"parameters"`
	Targets    map[string]string `json:"targets"`
}

const spotInterruption = "aws:ec2:send-spot-instance-interruptions"

func createExperimentTemplate(c *call) (any, error) {
	var in struct {
		Targets map[string]fisTarget
		Actions map[string]fisAction
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(in.Actions) {
		if a := in.Actions[name]; a.ActionId != spotInterruption {
			return nil, fail("ValidationException", "action %s: the simulator knows only %s, not %q", name, spotInterruption, a.ActionId)
		}
	}
	e := &experiment{ID: c.id("EXT", 16), Targets: in.Targets, Actions: in.Actions, At: c.at}
	c.reg.Experiments.put(e.ID, e)
	return map[string]any{"experimentTemplate": map[string]any{"id": e.ID, "creationTime": e.At.Unix(), "targets": e.Targets, "actions": e.Actions}}, nil
}

func (c *call) experiment(id string) (*experiment, error) {
	if e := c.reg.Experiments.get(id); e != nil {
		return e, nil
	}
	return nil, fail("ResourceNotFoundException", "Experiment or template %s not found", id).withStatus(http.StatusNotFound)
}

func deleteExperimentTemplate(c *call) (any, error) {
	e, err := c.experiment(c.rest[0])
	if err != nil {
		return nil, err
	}
	c.reg.Experiments.delete(e.ID)
	return map[string]any{"experimentTemplate": map[string]any{"id": e.ID}}, nil
}

func startExperiment(c *call) (any, error) {
	var in struct{ ExperimentTemplateId string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	t, err := c.experiment(in.ExperimentTemplateId)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(t.Actions) {
		targets := t.Actions[name].Targets
		for _, role := range sortedKeys(targets) {
			target := targets[role]
			for _, arn := range t.Targets[target].ResourceArns {
				id := arn[strings.LastIndexByte(arn, '/')+1:]
				if i := c.reg.Instances.get(id); i != nil && i.Lifecycle == "spot" {
					c.interrupt(i, c.at)
				}
			}
		}
	}
	run := &experiment{ID: c.id("EXP", 16), Template: t.ID, Targets: t.Targets, Actions: t.Actions, At: c.at, Status: "completed"}
	c.reg.Experiments.put(run.ID, run)
	return run.json(), nil
}

func (e *experiment) json() map[string]any {
	return map[string]any{"experiment": map[string]any{"id": e.ID, "experimentTemplateId": e.Template, "creationTime": e.At.Unix(), "state": map[string]string{"status": e.Status}}}
}

func getExperiment(c *call) (any, error) {
	e, err := c.experiment(c.rest[0])
	if err != nil {
		return nil, err
	}
	return e.json(), nil
}

// fisOperations is the FIS part of the operation table.
var fisOperations = map[string]*operation{
	"CreateExperimentTemplate": {json: createExperimentTemplate, writes: true},
	"DeleteExperimentTemplate": {json: deleteExperimentTemplate, writes: true},
	"StartExperiment":          {json: startExperiment, writes: true},
	"GetExperiment":            {json: getExperiment},
}
