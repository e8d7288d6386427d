// Package awscontract holds the AWS simulator against clients that nobody here
// wrote: the AWS SDK for Go v2 and the aws command. Every operation that the
// world claims to know must be driven successfully by both; TestMain checks
// that at the end of a full run.
package awscontract

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/fis"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"karpenter/internal/cloud/simaws"
)

// driven collects the operations that succeeded, by client.
var driven = struct {
	sync.Mutex
	by map[string]map[string]bool
}{by: map[string]map[string]bool{"sdk": {}, "cli": {}}}

func record(client string) func(simaws.Call) {
	return func(c simaws.Call) {
		if c.Status == 200 && c.Code == "" {
			driven.Lock()
			driven.by[client][c.Service+":"+c.Action] = true
			driven.Unlock()
		}
	}
}

func TestMain(m *testing.M) {
	if address := os.Getenv(socketVariable); address != "" {
		os.Exit(runRemotely(address, os.Args[1:]))
	}
	code := m.Run()
	stopServer()
	// Only a run of everything can be asked whether it drove everything.
	if run := flag.Lookup("test.run"); code == 0 && (run == nil || run.Value.String() == "") {
		code = checkCoverage()
	}
	os.Exit(code)
}

func checkCoverage() int {
	clients := []string{"sdk", "cli"}
	if findCLI() == "" || testing.Short() {
		clients = clients[:1]
	}
	code := 0
	for _, client := range clients {
		for _, op := range undriven(client) {
			fmt.Fprintf(os.Stderr, "operation %s was not driven by the %s\n", op, client)
			code = 1
		}
	}
	return code
}

// undriven lists the operations that no call of a client has succeeded with.
func undriven(client string) []string {
	driven.Lock()
	defer driven.Unlock()
	return slices.DeleteFunc(simaws.Operations(), func(op string) bool { return driven.by[client][op] })
}

// start is the time at which the simulated worlds begin.
var start = time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)

// world is a simulated AWS and SDK clients that talk to it over a socket.
type world struct {
	t     *testing.T
	sim   *simaws.Sim
	clock *simaws.Manual
	url   string
	ctx   context.Context

	ec2     *ec2.Client
	iam     *iam.Client
	sts     *sts.Client
	sqs     *sqs.Client
	ssm     *ssm.Client
	eks     *eks.Client
	pricing *pricing.Client
	stacks  *cloudformation.Client
	events  *eventbridge.Client
	shifts  *arczonalshift.Client
	faults  *fis.Client
	scaling *autoscaling.Client
}

// newWorld starts a world; client is "sdk" or "cli" for the coverage count.
func newWorld(t *testing.T, client string, edit func(*simaws.Options)) *world {
	t.Helper()
	w := &world{t: t, clock: simaws.NewManual(start), ctx: t.Context()}
	opt := simaws.Options{
		Clock: w.clock, Seed: 7, Region: "us-west-2", Queue: "my-cluster", OnCall: record(client),
		Clusters: []simaws.Cluster{{Name: "my-cluster", Version: "1.34", Endpoint: "https://cluster.local"}, {Name: "production"}},
	}
	if edit != nil {
		edit(&opt)
	}
	sim, err := simaws.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	w.sim = sim
	server := httptest.NewServer(judged(t, sim.Handler()))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.use("test")
	return w
}

// use makes clients that sign with an access key. They retry as clients do by
// default: the SDK can lose a connection when a large answer comes very fast.
func (w *world) use(key string) {
	w.t.Helper()
	cfg, err := config.LoadDefaultConfig(w.ctx,
		config.WithRegion("us-west-2"), config.WithBaseEndpoint(w.url),
		config.WithCredentialsProvider(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key, SecretAccessKey: "secret"}, nil
		})),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
		}),
		config.WithSharedConfigFiles(nil), config.WithSharedCredentialsFiles(nil))
	if err != nil {
		w.t.Fatal(err)
	}
	w.ec2, w.iam, w.sts = ec2.NewFromConfig(cfg), iam.NewFromConfig(cfg), sts.NewFromConfig(cfg)
	w.sqs, w.ssm, w.eks = sqs.NewFromConfig(cfg), ssm.NewFromConfig(cfg), eks.NewFromConfig(cfg)
	w.pricing, w.stacks, w.events = pricing.NewFromConfig(cfg), cloudformation.NewFromConfig(cfg), eventbridge.NewFromConfig(cfg)
	w.shifts, w.faults, w.scaling = arczonalshift.NewFromConfig(cfg), fis.NewFromConfig(cfg), autoscaling.NewFromConfig(cfg)
}

// advance moves the clock and lets what is due happen.
func (w *world) advance(d time.Duration) {
	w.clock.Advance(d)
	w.sim.Tick()
}

// must ends the test on an error and hands the value on.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// code is the AWS error code of an error.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	if err != nil {
		return "not an API error: " + err.Error()
	}
	return ""
}

// refuses checks that an error has a code.
func refuses(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("got error %q (%v), want %q", got, err, want)
	}
}
