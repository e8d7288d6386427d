package simaws

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/catalog"
)

// zonalShift moves traffic away from a zone.
type zonalShift struct {
	ID, Resource, AwayFrom, Comment string
	Start, Expiry                   time.Time
	Cancelled                       bool
}

func (z *zonalShift) active(now time.Time) bool { return !z.Cancelled && now.Before(z.Expiry) }

// json is a shift as it is answered to who begins or ends it; of a resource it is told with two more words.
func (z *zonalShift) json() map[string]any {
	return map[string]any{
		"zonalShiftId": z.ID, "resourceIdentifier": z.Resource, "awayFrom": z.AwayFrom,
		"expiryTime": z.Expiry.Unix(), "startTime": z.Start.Unix(), "comment": z.Comment,
	}
}

func errShiftResource(id string) *apiError {
	return fail("ResourceNotFoundException", "The input requested a resource that was not found: %s", id).withStatus(http.StatusNotFound)
}

// shiftsOf lists the active shifts of a resource and the share of traffic that
// they leave to each zone.
func (c *call) shiftsOf(id string) (shifts []any, weights map[string]float64) {
	away := map[string]bool{}
	shifts = []any{}
	for z := range c.reg.Shifts.each {
		if z.Resource == id && z.active(c.at) {
			one := z.json()
			one["appliedStatus"], one["shiftType"] = "APPLIED", "ZONAL_SHIFT"
			shifts = append(shifts, one)
			away[z.AwayFrom] = true
		}
	}
	weights = map[string]float64{}
	for _, z := range c.reg.offers.Zones {
		weights[z.ID] = 1
		if away[z.ID] {
			weights[z.ID] = 0
		}
	}
	return shifts, weights
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
	shifts, weights := c.shiftsOf(id)
	return map[string]any{"arn": id, "name": name, "appliedWeights": weights, "zonalShifts": shifts, "autoshifts": []any{}, "zonalAutoshiftStatus": "DISABLED"}, nil
}

// arcPage is the largest page of ARC, and what it gives unasked.
const arcPage = 100

func listManagedResources(c *call) (any, error) {
	want, err := c.restPaging(arcPage, fail("ValidationException", "").because("InvalidToken"))
	if err != nil {
		return nil, err
	}
	part, next, err := pageOf(keysOf(c.reg.Clusters), want)
	if err != nil {
		return nil, err
	}
	zones := []string{}
	for _, z := range c.reg.offers.Zones {
		zones = append(zones, z.ID)
	}
	items := []any{}
	for _, name := range part {
		id := c.arn("eks", "cluster/"+name)
		shifts, weights := c.shiftsOf(id)
		items = append(items, map[string]any{
			"arn": id, "name": name, "availabilityZones": zones, "appliedWeights": weights, "zonalShifts": shifts,
			"autoshifts": []any{}, "zonalAutoshiftStatus": "DISABLED",
		})
	}
	return listing("items", items, "nextToken", next), nil
}

func startZonalShift(c *call) (any, error) {
	var in struct{ ResourceIdentifier, AwayFrom, ExpiresIn, Comment string }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(in.ExpiresIn)
	if err != nil || d <= 0 || d > 72*time.Hour {
		return nil, fail("ValidationException", "expiresIn %q must be a time such as 30m or 2h, at most 72h", in.ExpiresIn).because("InvalidExpiresIn")
	}
	name, ok := strings.CutPrefix(in.ResourceIdentifier, c.arn("eks", "cluster/"))
	if !ok || c.reg.Clusters.get(name) == nil {
		return nil, errShiftResource(in.ResourceIdentifier)
	}
	if !slices.ContainsFunc(c.reg.offers.Zones, func(z catalog.Zone) bool { return z.ID == in.AwayFrom }) {
		return nil, fail("ValidationException", "awayFrom %q is not the id of a zone of %s, such as %s", in.AwayFrom, c.reg.Name, c.reg.offers.Zones[0].ID).because("InvalidAz")
	}
	if running, _ := c.shiftsOf(in.ResourceIdentifier); len(running) > 0 {
		return nil, fail("ConflictException", "%s already has an active zonal shift.", in.ResourceIdentifier).withStatus(http.StatusConflict).because("ZonalShiftAlreadyExists")
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
	if !z.active(c.at) {
		return nil, fail("ConflictException", "Zonal shift %s is not active.", z.ID).withStatus(http.StatusConflict).because("ZonalShiftStatusNotActive")
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
