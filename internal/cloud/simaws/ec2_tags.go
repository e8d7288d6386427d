package simaws

import (
	"slices"
	"strings"
)

// taggable finds the tags of a resource by id, and the kind it is of.
func (p place) taggable(id string) (kind string, tags *tagSet) {
	prefix, _, _ := strings.Cut(id, "-")
	switch prefix {
	case "i":
		if v := p.reg.Instances.get(id); v != nil {
			return "instance", &v.Tags
		}
	case "subnet":
		if v := p.reg.Subnets.get(id); v != nil {
			return "subnet", &v.Tags
		}
	case "sg":
		if v := p.reg.Groups.get(id); v != nil {
			return "security-group", &v.Tags
		}
	case "vpc":
		if v := p.reg.VPCs.get(id); v != nil {
			return "vpc", &v.Tags
		}
	case "ami":
		if v := p.reg.Images.get(id); v != nil {
			return "image", &v.Tags
		}
	case "lt":
		if v := p.reg.Templates.get(id); v != nil {
			return "launch-template", &v.Tags
		}
	case "vol":
		if v := p.reg.Volumes.get(id); v != nil {
			return "volume", &v.Tags
		}
	case "sir":
		if v := p.reg.SpotRequests.get(id); v != nil {
			return "spot-instances-request", &v.Tags
		}
	case "cr":
		if v := p.reg.Reservations.get(id); v != nil {
			return "capacity-reservation", &v.Tags
		}
	case "pg":
		if v := p.reg.Placements.get(id); v != nil {
			return "placement-group", &v.Tags
		}
	case "fleet":
		if v := p.reg.Fleets.get(id); v != nil {
			return "fleet", &v.Tags
		}
	}
	return "", nil
}

// maxTags is how many tags of its user's a resource may carry.
const maxTags = 50

func checkTags(tags []Tag) *apiError {
	for _, t := range tags {
		switch {
		case t.Key == "":
			return fail("InvalidParameterValue", "Tag key cannot be null or empty.")
		case len(t.Key) > 128 || len(t.Value) > 256:
			return fail("InvalidParameterValue", "Tag key exceeds the maximum length of 128 characters or value the maximum of 256: %s", t.Key)
		case strings.HasPrefix(strings.ToLower(t.Key), "aws:"):
			return fail("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
		}
	}
	return nil
}

func createTags(c *call) error {
	ids, tags := c.q.strs("ResourceId"), c.q.tags("Tag")
	if len(ids) == 0 {
		return missing("resourceIdSet")
	}
	if len(tags) == 0 {
		return missing("tagSet")
	}
	if err := checkTags(tags); err != nil {
		return err
	}
	var found []*tagSet
	for _, id := range ids {
		kind, set := c.taggable(id)
		if set == nil {
			return errResource(id)
		}
		if err := c.allow("ec2:CreateTags", c.arn("ec2", kind+"/"+id), conditionTags(*set, tags)); err != nil {
			return err
		}
		if len(set.with(tags...)) > maxTags+5 {
			return fail("TagLimitExceeded", "The maximum number of tags for a resource has been reached: %d", maxTags)
		}
		found = append(found, set)
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	for _, set := range found {
		*set = set.with(tags...)
	}
	c.x.bool("return", true)
	return nil
}

// errResource is the not-found error of whatever an id looks like.
func errResource(id string) *apiError {
	switch {
	case strings.HasPrefix(id, "i-"):
		return errInstance(id)
	case strings.HasPrefix(id, "subnet-"):
		return errSubnet(id)
	case strings.HasPrefix(id, "sg-"):
		return errGroup(id)
	case strings.HasPrefix(id, "lt-"):
		return errTemplateID(id)
	}
	return fail("InvalidID", "The ID '%s' is not valid", id)
}

func deleteTags(c *call) error {
	ids := c.q.strs("ResourceId")
	if len(ids) == 0 {
		return missing("resourceIdSet")
	}
	for _, id := range ids {
		kind, set := c.taggable(id)
		if set == nil {
			return errResource(id)
		}
		if err := c.allow("ec2:DeleteTags", c.arn("ec2", kind+"/"+id), conditionTags(*set, c.q.tags("Tag"))); err != nil {
			return err
		}
		if !c.q.has("Tag") {
			*set = nil
			continue
		}
		for _, t := range c.q.items("Tag") {
			// A value, if given, must match.
			if v, ok := set.get(t.str("Key")); ok && (!t.has("Value") || v == t.str("Value")) {
				*set = set.without(t.str("Key"))
			}
		}
	}
	c.x.bool("return", true)
	return nil
}

func describeTags(c *call) error {
	fs, err := c.filters()
	if err != nil {
		return err
	}
	type row struct{ id, kind, key, value string }
	var all []*row
	add := func(id string) {
		kind, set := c.taggable(id)
		for _, t := range *set {
			all = append(all, &row{id, kind, t.Key, t.Value})
		}
	}
	for _, ids := range [][]string{
		keysOf(c.reg.Instances), keysOf(c.reg.Subnets), keysOf(c.reg.Groups), keysOf(c.reg.Templates),
		keysOf(c.reg.Volumes), keysOf(c.reg.VPCs), keysOf(c.reg.Images), keysOf(c.reg.SpotRequests),
	} {
		for _, id := range ids {
			add(id)
		}
	}
	all, err = filtered(all, fs, func(r *row) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "resource-id":
				return append(out, r.id), true
			case "resource-type":
				return append(out, r.kind), true
			case "key":
				return append(out, r.key), true
			case "value":
				return append(out, r.value), true
			}
			return out, false
		}
	})
	if err != nil {
		return err
	}
	part, next, err := page(c, all, pages{5, 1000, 1000})
	if err != nil {
		return err
	}
	c.x.in("tagSet", func() {
		for _, r := range part {
			c.x.in("item", func() {
				c.x.str("resourceId", r.id)
				c.x.str("resourceType", r.kind)
				c.x.str("key", r.key)
				c.x.str("value", r.value)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

// keysOf lists the ids of a table, in order.
func keysOf[T any](t *table[T]) []string { return slices.Clone(t.Order) }
