package simaws

import (
	"net/http"
	"slices"
	"time"
)

type cluster struct {
	Name, Version, Endpoint, CA, ServiceCIDR, RoleARN string
	IPv6                                              bool
	Created                                           time.Time
	Tags                                              map[string]string
	// Access are the access entries by principal, Nodegroups the managed node groups by name.
	Access     map[string]*accessEntry
	Nodegroups map[string]*nodegroup
}

type accessEntry struct {
	Principal, Kind, Username string
	Groups                    []string
	Created                   time.Time
}

// simulatedCA is a placeholder where no real certificate is given; it is the
// base64 form of a PEM header that names itself.
const simulatedCA = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCnNpbXVsYXRlZAotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="

func (p place) addCluster(c Cluster) *cluster {
	out := &cluster{
		Name: c.Name, Version: orDefault(c.Version, p.opt.KubernetesVersions[len(p.opt.KubernetesVersions)-1]),
		Endpoint: c.Endpoint, CA: orDefault(c.CertificateAuthority, simulatedCA), ServiceCIDR: c.ServiceCIDR, IPv6: c.IPv6,
		Created: p.now(), Tags: map[string]string{}, Access: map[string]*accessEntry{},
	}
	if out.ServiceCIDR == "" {
		out.ServiceCIDR = "10.100.0.0/16"
		if c.IPv6 {
			out.ServiceCIDR = "fd30:abc:1200::/108"
		}
	}
	if out.Endpoint == "" {
		out.Endpoint = "https://" + uuidFrom(hashString(c.Name), hashString(p.reg.Name))[:8] + ".gr7." + p.reg.Name + ".eks.amazonaws.com"
	}
	p.reg.Clusters.put(out.Name, out)
	return out
}

func (c *call) cluster() (*cluster, error) {
	name := c.rest[0]
	if err := c.allow("eks:"+c.action, c.arn("eks", "cluster/"+name), nil); err != nil {
		return nil, err
	}
	if cl := c.reg.Clusters.get(name); cl != nil {
		return cl, nil
	}
	return nil, fail("ResourceNotFoundException", "No cluster found for name: %s.", name).withStatus(http.StatusNotFound)
}

func (c *call) clusterJSON(cl *cluster) map[string]any {
	network := map[string]any{"ipFamily": "ipv4", "serviceIpv4Cidr": cl.ServiceCIDR}
	if cl.IPv6 {
		network = map[string]any{"ipFamily": "ipv6", "serviceIpv6Cidr": cl.ServiceCIDR}
	}
	return map[string]any{"cluster": map[string]any{
		"name": cl.Name, "arn": c.arn("eks", "cluster/"+cl.Name), "createdAt": cl.Created.Unix(), "version": cl.Version,
		"endpoint": cl.Endpoint, "roleArn": cl.RoleARN, "status": "ACTIVE", "platformVersion": "eks.1", "tags": cl.Tags,
		"certificateAuthority":    map[string]string{"data": cl.CA},
		"kubernetesNetworkConfig": network,
		"identity":                map[string]any{"oidc": map[string]string{"issuer": "https://oidc.eks." + c.reg.Name + ".amazonaws.com/id/" + uuidFrom(hashString(cl.Name), 2)[:8]}},
		"resourcesVpcConfig": map[string]any{
			"vpcId": seedVPC, "subnetIds": keysOf(c.reg.Subnets), "securityGroupIds": []string{}, "clusterSecurityGroupId": seedGroup,
			"endpointPublicAccess": true, "endpointPrivateAccess": true,
		},
		"accessConfig": map[string]any{"authenticationMode": "API_AND_CONFIG_MAP"},
	}}
}

func describeCluster(c *call) (any, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, err
	}
	return c.clusterJSON(cl), nil
}

func listClusters(c *call) (any, error) {
	return c.eksList("clusters", keysOf(c.reg.Clusters))
}

// eksPage is the largest page of EKS, and what it gives unasked.
const eksPage = 100

// eksList answers a page of names.
func (c *call) eksList(name string, all []string) (any, error) {
	want, err := c.restPaging(eksPage, fail("InvalidParameterException", ""))
	if err != nil {
		return nil, err
	}
	part, next, err := pageOf(all, want)
	if err != nil {
		return nil, err
	}
	return listing(name, part, "nextToken", next), nil
}

func createCluster(c *call) (any, error) {
	var in struct {
		Name, Version, RoleArn  string
		Tags                    map[string]string
		KubernetesNetworkConfig struct{ ServiceIpv4Cidr, IpFamily string }
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, fail("InvalidParameterException", "The cluster name must not be empty.")
	}
	if c.reg.Clusters.get(in.Name) != nil {
		return nil, fail("ResourceInUseException", "Cluster already exists with name: %s", in.Name).withStatus(http.StatusConflict)
	}
	if in.Version != "" && !slices.Contains(c.opt.KubernetesVersions, in.Version) {
		return nil, fail("InvalidParameterException", "unsupported Kubernetes version %s", in.Version)
	}
	cl := c.addCluster(Cluster{Name: in.Name, Version: in.Version, ServiceCIDR: in.KubernetesNetworkConfig.ServiceIpv4Cidr, IPv6: in.KubernetesNetworkConfig.IpFamily == "ipv6"})
	cl.RoleARN, cl.Tags = in.RoleArn, orEmpty(in.Tags)
	return c.clusterJSON(cl), nil
}

func deleteCluster(c *call) (any, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, err
	}
	c.reg.Clusters.delete(cl.Name)
	return c.clusterJSON(cl), nil
}

func (c *call) accessJSON(cl *cluster, e *accessEntry) map[string]any {
	return map[string]any{"accessEntry": map[string]any{
		"clusterName": cl.Name, "principalArn": e.Principal, "kubernetesGroups": e.Groups, "type": e.Kind, "username": e.Username,
		"accessEntryArn": c.arn("eks", "access-entry/"+cl.Name+"/"+e.Principal), "createdAt": e.Created.Unix(), "tags": map[string]string{},
	}}
}

func createAccessEntry(c *call) (any, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, err
	}
	var in struct {
		PrincipalArn, Type, Username string
		KubernetesGroups             []string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.PrincipalArn == "" {
		return nil, fail("InvalidParameterException", "The principalArn must not be empty.")
	}
	if cl.Access[in.PrincipalArn] != nil {
		return nil, fail("ResourceInUseException", "The specified access entry resource is already in use on this cluster.").withStatus(http.StatusConflict)
	}
	e := &accessEntry{Principal: in.PrincipalArn, Kind: orDefault(in.Type, "STANDARD"), Username: orDefault(in.Username, in.PrincipalArn), Groups: in.KubernetesGroups, Created: c.at}
	cl.Access[e.Principal] = e
	return c.accessJSON(cl, e), nil
}

func (c *call) accessEntry() (*cluster, *accessEntry, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, nil, err
	}
	if e := cl.Access[c.rest[1]]; e != nil {
		return cl, e, nil
	}
	return nil, nil, fail("ResourceNotFoundException", "The specified principalArn could not be found: %s", c.rest[1]).withStatus(http.StatusNotFound)
}

func describeAccessEntry(c *call) (any, error) {
	cl, e, err := c.accessEntry()
	if err != nil {
		return nil, err
	}
	return c.accessJSON(cl, e), nil
}

func deleteAccessEntry(c *call) (any, error) {
	cl, e, err := c.accessEntry()
	if err != nil {
		return nil, err
	}
	delete(cl.Access, e.Principal)
	return struct{}{}, nil
}

func listAccessEntries(c *call) (any, error) {
	cl, err := c.cluster()
	if err != nil {
		return nil, err
	}
	return c.eksList("accessEntries", sortedKeys(cl.Access))
}

// eksOperations is the EKS part of the operation table.
var eksOperations = map[string]*operation{
	"ListClusters":        {json: listClusters},
	"CreateCluster":       {json: createCluster, writes: true},
	"DescribeCluster":     {json: describeCluster, authorizes: true},
	"DeleteCluster":       {json: deleteCluster, writes: true, authorizes: true},
	"ListAccessEntries":   {json: listAccessEntries, authorizes: true},
	"CreateAccessEntry":   {json: createAccessEntry, writes: true, authorizes: true},
	"DescribeAccessEntry": {json: describeAccessEntry, authorizes: true},
	"DeleteAccessEntry":   {json: deleteAccessEntry, writes: true, authorizes: true},
	"ListNodegroups":      {json: listNodegroups, authorizes: true},
	"CreateNodegroup":     {json: createNodegroup, writes: true, authorizes: true},
	"DescribeNodegroup":   {json: describeNodegroup, authorizes: true},
	"DeleteNodegroup":     {json: deleteNodegroup, writes: true, authorizes: true},
}
