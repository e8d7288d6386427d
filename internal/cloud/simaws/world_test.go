package simaws

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)

// world is a simulator under a clock that stands still, with the query
// protocol at hand.
type world struct {
	*Sim
	t     *testing.T
	clock *Manual
	key   string
}

func newTestWorld(t *testing.T, edit func(*Options)) *world {
	t.Helper()
	w := &world{t: t, clock: NewManual(epoch), key: "test"}
	opt := Options{Clock: w.clock, Seed: 1, Queue: "q", Clusters: []Cluster{{Name: "c1", Endpoint: "https://c1"}}}
	if edit != nil {
		edit(&opt)
	}
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	w.Sim = s
	return w
}

func (w *world) advance(d time.Duration) {
	w.clock.Advance(d)
	w.Tick()
}

func authorization(key, service string) string {
	return "AWS4-HMAC-SHA256 Credential=" + key + "/20251001/us-west-2/" + service + "/aws4_request, SignedHeaders=host, Signature=0"
}

// send makes a query call and returns status and body.
func (w *world) send(service, action string, pairs ...string) (int, string) {
	w.t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", authorization(w.key, service))
	rec := httptest.NewRecorder()
	w.Handler().ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// must makes a call that has to succeed.
func (w *world) must(service, action string, pairs ...string) string {
	w.t.Helper()
	status, body := w.send(service, action, pairs...)
	if status != 200 {
		w.t.Fatalf("%s %v: %d %s", action, pairs, status, body)
	}
	return body
}

// refused makes a call that has to fail with a code.
func (w *world) refused(code, action string, pairs ...string) string {
	w.t.Helper()
	status, body := w.send("ec2", action, pairs...)
	if got := pickFirst(body, "Code"); status == 200 || got != code {
		w.t.Fatalf("%s: status %d, code %q, want %q\n%s", action, status, got, code, body)
	}
	return body
}

// pickAll lists the texts of an element.
func pickAll(body, element string) []string {
	var out []string
	for _, m := range regexp.MustCompile("<"+element+">([^<]*)</"+element+">").FindAllStringSubmatch(body, -1) {
		out = append(out, m[1])
	}
	return out
}

func pickFirst(body, element string) string {
	if all := pickAll(body, element); len(all) > 0 {
		return all[0]
	}
	return ""
}

const testNodeConfig = `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: c1, apiServerEndpoint: "https://c1", certificateAuthority: Y2E=, cidr: 10.100.0.0/16}
`

// prepareLaunch makes role, profile and a launch template named tpl.
func (w *world) prepareLaunch(extra ...string) {
	w.t.Helper()
	trust := `{"Statement":{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"ec2.amazonaws.com"}}}`
	w.must("iam", "CreateRole", "RoleName", "node", "AssumeRolePolicyDocument", trust)
	w.must("iam", "CreateInstanceProfile", "InstanceProfileName", "node")
	w.must("iam", "AddRoleToInstanceProfile", "InstanceProfileName", "node", "RoleName", "node")
	w.launchTemplate("tpl", extra...)
}

func (w *world) launchTemplate(name string, extra ...string) {
	w.t.Helper()
	pairs := append([]string{
		"LaunchTemplateName", name, "LaunchTemplateData.ImageId", w.image("amazon-eks-node-al2023-x86_64-standard-1.34-v20250920"),
		"LaunchTemplateData.UserData", base64.StdEncoding.EncodeToString([]byte(testNodeConfig)),
		"LaunchTemplateData.IamInstanceProfile.Name", "node",
	}, extra...)
	w.must("ec2", "CreateLaunchTemplate", pairs...)
}

func (w *world) image(name string) string {
	w.t.Helper()
	id := pickFirst(w.must("ec2", "DescribeImages", "Filter.1.Name", "name", "Filter.1.Value.1", name), "imageId")
	if id == "" {
		w.t.Fatalf("no image %s", name)
	}
	return id
}

// fleet asks for n instances of "type@subnet" overrides.
func (w *world) fleet(capacityType string, n int, overrides ...string) string {
	w.t.Helper()
	return w.must("ec2", "CreateFleet", fleetPairs("tpl", capacityType, n, overrides...)...)
}

func fleetPairs(template, capacityType string, n int, overrides ...string) []string {
	pairs := []string{
		"Type", "instant", "TargetCapacitySpecification.TotalTargetCapacity", fmt.Sprint(n),
		"TargetCapacitySpecification.DefaultTargetCapacityType", capacityType,
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName", template,
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "$Latest",
	}
	for i, o := range overrides {
		typ, rest, _ := strings.Cut(o, "@")
		subnet, priority, _ := strings.Cut(rest, "!")
		prefix := fmt.Sprintf("LaunchTemplateConfigs.1.Overrides.%d.", i+1)
		pairs = append(pairs, prefix+"InstanceType", typ)
		if subnet != "" {
			pairs = append(pairs, prefix+"SubnetId", subnet)
		}
		if priority != "" {
			pairs = append(pairs, prefix+"Priority", priority)
		}
	}
	return pairs
}

var instanceID = regexp.MustCompile(`<item>(i-[0-9a-f]+)</item>`)

// launched lists the instance ids of a fleet answer.
func launched(body string) []string {
	var out []string
	for _, m := range instanceID.FindAllStringSubmatch(body, -1) {
		out = append(out, m[1])
	}
	return out
}

// messages takes all messages out of the queue q and lists their bodies.
func (w *world) messages() []string {
	w.t.Helper()
	var out []string
	for {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"QueueUrl":"http://x/1/q","MaxNumberOfMessages":10,"VisibilityTimeout":3600}`))
		r.Header.Set("Authorization", authorization("test", "sqs"))
		r.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, r)
		body, _ := io.ReadAll(rec.Body)
		found := regexp.MustCompile(`"Body":"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(string(body), -1)
		if len(found) == 0 {
			return out
		}
		for _, m := range found {
			out = append(out, strings.ReplaceAll(m[1], `\"`, `"`))
		}
	}
}

// stateOf is the state DescribeInstances shows.
func (w *world) stateOf(id string) string {
	w.t.Helper()
	return pickFirst(w.must("ec2", "DescribeInstances", "InstanceId.1", id), "name")
}
