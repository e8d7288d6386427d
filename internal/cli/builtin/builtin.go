// Package builtin is what can be bought as far as the program knows by itself. It holds the AWS simulator to the real provider, and so is no
// part of the controller: only commands, which may have neither network nor credentials, ask it.
package builtin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
)

// memoryOverhead is the default of VM_MEMORY_OVERHEAD_PERCENT: what a controller would be told is not known here.
const memoryOverhead = 0.075

// day is the moment that spot prices are taken at: they move from hour to hour in the AWS simulator too, and what is
// built in should not.
var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Catalogue is what can be bought as far as this program knows by itself: the instance types of the AWS simulator, worked out by
// the AWS provider as for a controller, at the prices that are embedded in it. Spot prices are typical ones.
type Catalogue struct {
	// PricesAt is the day of the price list, From the region that it is of: another one for want of a list of this region.
	PricesAt time.Time
	From     string
	// Types has, by name of the node class, what it can launch.
	Types map[string]*cloud.Types
}

// Query says what is to be worked out.
type Query struct {
	// Region is the cluster's, Zones are those of classes whose status names none; none stands for every zone of the region.
	Region string
	Zones  []string
	// Classes are the node classes, with their status as far as they have one.
	Classes []cloud.KnownClass
}

// Load works out what node classes can launch, without network, credentials or cluster. Of a region that the catalogue lacks,
// as it does those of GovCloud and China, the one whose prices stand in for its own is taken, with the zones by their own names.
func Load(ctx context.Context, q Query) (*Catalogue, error) {
	clock := simaws.NewManual(day)
	stored := q.Region
	sim, err := simaws.New(simaws.Options{Clock: clock, Seed: 1, Region: stored})
	if err != nil {
		stored = aws.FallbackRegion
		sim, err = simaws.New(simaws.Options{Clock: clock, Seed: 1, Region: stored})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the built-in catalogue: %w", err)
	}
	clients := aws.NewClients(sdkaws.Config{
		Region: stored, BaseEndpoint: sdkaws.String("http://built-in.invalid"), HTTPClient: inside{sim.Handler(), stored, q.Region},
		Credentials: sdkaws.CredentialsProviderFunc(func(context.Context) (sdkaws.Credentials, error) {
			return sdkaws.Credentials{AccessKeyID: "built-in", SecretAccessKey: "built-in"}, nil
		}),
	})
	zones := q.Zones
	if len(zones) == 0 {
		if zones, err = zonesOf(ctx, clients.EC2); err != nil {
			return nil, err
		}
	}
	classes := map[string]*awsv1.EC2NodeClass{}
	for _, c := range q.Classes {
		classes[c.GetName()] = resolved(c.NodeClass.(*awsv1.EC2NodeClass), zones)
	}
	provider := aws.New(aws.Options{
		Clients: clients, Clock: clock, Region: q.Region, MemoryOverhead: memoryOverhead, ReservedCapacity: true, KubeletExpressions: true,
		Class: func(name string) *awsv1.EC2NodeClass { return classes[name] },
	})
	if err := provider.RefreshTypes(ctx); err != nil {
		return nil, fmt.Errorf("reading the built-in catalogue: %w", err)
	}
	if err := provider.RefreshSpot(ctx); err != nil {
		return nil, fmt.Errorf("reading the built-in catalogue: %w", err)
	}
	known := provider.PriceState()
	built := &Catalogue{PricesAt: known.OnDemandAt, From: q.Region, Types: map[string]*cloud.Types{}}
	if known.Foreign {
		built.From = aws.FallbackRegion
	}
	for name := range classes {
		if built.Types[name], err = provider.Types(name); err != nil {
			return nil, fmt.Errorf("reading the built-in catalogue: %w", err)
		}
	}
	return built, nil
}

// zonesOf lists the zones of the client's region.
func zonesOf(ctx context.Context, client *ec2.Client) ([]string, error) {
	answer, err := client.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return nil, fmt.Errorf("reading the zones of the built-in catalogue: %w", err)
	}
	var zones []string
	for _, z := range answer.AvailabilityZones {
		zones = append(zones, sdkaws.ToString(z.ZoneName))
	}
	slices.Sort(zones)
	return zones, nil
}

// resolved is a class with the parts of its status that types are worked out from. One that the controller has not resolved
// gets every zone, and an image for each architecture.
func resolved(c *awsv1.EC2NodeClass, zones []string) *awsv1.EC2NodeClass {
	c = c.DeepCopy()
	if len(c.Status.Subnets) == 0 {
		for _, zone := range zones {
			c.Status.Subnets = append(c.Status.Subnets, awsv1.Subnet{ID: "subnet-" + zone, Zone: zone})
		}
	}
	if len(c.Status.AMIs) == 0 {
		for _, arch := range []string{"amd64", "arm64"} {
			c.Status.AMIs = append(c.Status.AMIs, awsv1.AMI{ID: "ami-" + arch, Requirements: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{arch}},
			}})
		}
	}
	slices.SortFunc(c.Status.Subnets, func(a, b awsv1.Subnet) int { return cmp.Compare(a.Zone, b.Zone) })
	return c
}

// inside answers requests by calling a handler: no socket is opened. What the handler says of one region is said of another, if they
// differ.
type inside struct {
	http.Handler
	region, as string
}

// Do implements the SDK's client.
func (i inside) Do(r *http.Request) (*http.Response, error) {
	asked := r.Clone(r.Context())
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	asked.RequestURI = r.URL.RequestURI()
	a := &answer{header: http.Header{}, status: http.StatusOK}
	i.ServeHTTP(a, asked)
	body := bytes.ReplaceAll(a.body.Bytes(), []byte(i.region), []byte(i.as))
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

// answer collects what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(data []byte) (int, error) { return a.body.Write(data) }
