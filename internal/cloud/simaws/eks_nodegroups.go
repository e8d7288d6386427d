package simaws

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// nodegroup is an EKS managed node group. Like the Auto Scaling group that comes with it, it is a record and launches
// nothing.
type nodegroup struct {
	Name, AMIType, CapacityType, NodeRole, Version string
	Min, Max, Desired, DiskSize                    int
	InstanceTypes, Subnets                         []string
	Labels, Tags                                   map[string]string
	Taints                                         []nodegroupTaint
	Template                                       *nodegroupTemplate
	// Group is the name of its Auto Scaling group.
	Group   string
	Created time.Time
}

type nodegroupTaint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

type nodegroupTemplate struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

func (c *call) nodegroupJSON(cl *cluster, n *nodegroup) map[string]any {
	out := map[string]any{
		"nodegroupName": n.Name, "clusterName": cl.Name, "nodegroupArn": c.arn("eks", "nodegroup/"+cl.Name+"/"+n.Name+"/"+n.Group[len(n.Group)-8:]),
		"version": n.Version, "createdAt": n.Created.Unix(), "modifiedAt": n.Created.Unix(), "status": "ACTIVE", "capacityType": n.CapacityType,
		"scalingConfig": map[string]int{"minSize": n.Min, "maxSize": n.Max, "desiredSize": n.Desired},
		"instanceTypes": n.InstanceTypes, "subnets": n.Subnets, "amiType": n.AMIType, "nodeRole": n.NodeRole,
		"labels": orEmpty(n.Labels), "taints": n.Taints, "tags": orEmpty(n.Tags),
		"resources": map[string]any{"autoScalingGroups": []map[string]string{{"name": n.Group}}},
	}
	if n.DiskSize != 0 {
		out["diskSize"] = n.DiskSize
	}
	if n.Template != nil {
		out["launchTemplate"] = n.Template
	}
	return map[string]any{"nodegroup": out}
}

func createNodegroup(c *call) (any, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, err
	}
	var in struct {
		NodegroupName, AmiType, CapacityType, NodeRole string
		ScalingConfig                                  *struct{ MinSize, MaxSize, DesiredSize int }
		DiskSize                                       int
		InstanceTypes, Subnets                         []string
		Labels, Tags                                   map[string]string
		Taints                                         []nodegroupTaint
		LaunchTemplate                                 *nodegroupTemplate
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	n := &nodegroup{
		Name: in.NodegroupName, AMIType: orDefault(in.AmiType, "AL2023_x86_64_STANDARD"), CapacityType: orDefault(in.CapacityType, "ON_DEMAND"),
		NodeRole: in.NodeRole, Version: cl.Version, Min: 1, Max: 2, Desired: 2, DiskSize: in.DiskSize, InstanceTypes: in.InstanceTypes,
		Subnets: in.Subnets, Labels: in.Labels, Tags: in.Tags, Taints: in.Taints, Template: in.LaunchTemplate, Created: c.at,
	}
	if size := in.ScalingConfig; size != nil {
		n.Min, n.Max, n.Desired = size.MinSize, size.MaxSize, size.DesiredSize
	}
	if err := c.checkNodegroup(cl, n); err != nil {
		return nil, err
	}
	c.groupOf(cl, n)
	cl.nodegroups()[n.Name] = n
	return c.nodegroupJSON(cl, n), nil
}

// nodegroups are the groups by name.
func (cl *cluster) nodegroups() map[string]*nodegroup {
	if cl.Nodegroups == nil {
		cl.Nodegroups = map[string]*nodegroup{}
	}
	return cl.Nodegroups
}

// checkNodegroup finds what EKS refuses, and fills in what it fills in.
func (c *call) checkNodegroup(cl *cluster, n *nodegroup) error {
	bad := func(format string, args ...any) *apiError { return fail("InvalidParameterException", format, args...) }
	switch {
	case n.Name == "" || n.NodeRole == "":
		return bad("nodegroupName and nodeRole must not be empty.")
	case cl.Nodegroups[n.Name] != nil:
		return fail("ResourceInUseException", "NodeGroup already exists with name %s and cluster name %s", n.Name, cl.Name).withStatus(http.StatusConflict)
	case n.Min < 0 || n.Min > n.Desired || n.Desired > n.Max || n.Max < 1:
		return bad("desiredSize %d must be between minSize %d and maxSize %d", n.Desired, n.Min, n.Max)
	case n.CapacityType != "ON_DEMAND" && n.CapacityType != "SPOT" && n.CapacityType != "CAPACITY_BLOCK":
		return bad("capacityType %q must be ON_DEMAND, SPOT or CAPACITY_BLOCK", n.CapacityType)
	case n.Template != nil && n.DiskSize != 0:
		return bad("Disk size must be specified within the launch template.")
	}
	if i := slices.IndexFunc(n.Subnets, func(id string) bool { return c.reg.Subnets.get(id) == nil }); i >= 0 || len(n.Subnets) == 0 {
		return bad("Subnets %v must be subnets of the cluster's VPC.", n.Subnets)
	}
	if n.Template == nil {
		if len(n.InstanceTypes) == 0 {
			n.InstanceTypes = []string{"t3.medium"}
		}
		if n.DiskSize == 0 {
			n.DiskSize = 20
		}
		return nil
	}
	t, err := c.template(n.Template.ID, n.Template.Name)
	if err != nil {
		return bad("Launch template is not usable: %v", err)
	}
	version, err := t.version(n.Template.Version)
	if err != nil {
		return bad("Launch template is not usable: %v", err)
	}
	n.Template.ID, n.Template.Name = t.ID, t.Name
	if version.Data.ImageID != "" {
		n.AMIType = "CUSTOM"
	}
	return nil
}

// groupOf makes the Auto Scaling group behind a node group, with the tags that EKS gives it.
func (c *call) groupOf(cl *cluster, n *nodegroup) {
	n.Group = "eks-" + n.Name + "-" + c.uuid()
	tags := tagSet(nil).with(
		Tag{"eks:cluster-name", cl.Name}, Tag{"eks:nodegroup-name", n.Name}, Tag{"kubernetes.io/cluster/" + cl.Name, "owned"},
		Tag{"k8s.io/cluster-autoscaler/enabled", "true"}, Tag{"k8s.io/cluster-autoscaler/" + cl.Name, "owned"})
	g := &autoScalingGroup{
		Name: n.Group, Min: n.Min, Max: n.Max, Desired: n.Desired, Created: c.at, OnDemandPct: 100, Tags: tags,
		VPCZoneIdentifier: strings.Join(n.Subnets, ","), ARN: c.arn("autoscaling", "autoScalingGroup:"+c.uuid()+":autoScalingGroupName/"+n.Group),
		Template: groupTemplate{c.id("lt-", 17), n.Group, "1"},
	}
	c.reg.ScalingGroups.put(g.Name, g)
}

func (c *call) nodegroup() (*cluster, *nodegroup, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, nil, err
	}
	if n := cl.Nodegroups[c.rest[1]]; n != nil {
		return cl, n, nil
	}
	return nil, nil, fail("ResourceNotFoundException", "No node group found for name: %s.", c.rest[1]).withStatus(http.StatusNotFound)
}

func describeNodegroup(c *call) (any, error) {
	cl, n, err := c.nodegroup()
	if err != nil {
		return nil, err
	}
	return c.nodegroupJSON(cl, n), nil
}

func deleteNodegroup(c *call) (any, error) {
	cl, n, err := c.nodegroup()
	if err != nil {
		return nil, err
	}
	delete(cl.Nodegroups, n.Name)
	c.reg.ScalingGroups.delete(n.Group)
	return c.nodegroupJSON(cl, n), nil
}

func listNodegroups(c *call) (any, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, err
	}
	return c.eksList("nodegroups", sortedKeys(cl.Nodegroups))
}
