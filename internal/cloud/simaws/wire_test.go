package simaws

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestMalformedRequests(t *testing.T) {
	w := newTestWorld(t, nil)
	long := strings.Repeat("A.", 40) + "B"
	for _, tc := range []struct {
		name, method, path, auth, target, body string
		status                                 int
		want                                   string
	}{
		{"no action", "POST", "/", "ec2", "", "Version=2016-11-15", 400, "MissingAction"},
		{"unknown action", "POST", "/", "ec2", "", "Action=DescribeUnicorns&Version=2016-11-15", 400, "InvalidAction"},
		{"bad escape", "POST", "/", "ec2", "", "Action=%zz", 400, "MalformedQueryString"},
		{"deep name", "POST", "/", "ec2", "", "Action=DescribeInstances&" + long + "=1", 400, "MalformedQueryString"},
		{"twice", "POST", "/", "ec2", "", "Action=DescribeInstances&MaxResults=5&MaxResults=6", 400, "MalformedQueryString"},
		{"not a number", "POST", "/", "ec2", "", "Action=DescribeInstances&MaxResults=many", 400, "InvalidParameterValue"},
		{"not a list", "POST", "/", "ec2", "", "Action=RunInstances&MinCount=1&MaxCount=1&TagSpecification.x.ResourceType=instance", 400, "MalformedQueryString"},
		{"bad token", "POST", "/", "ec2", "", "Action=DescribeInstances&NextToken=xx", 400, "InvalidNextToken"},
		{"unsigned", "POST", "/", "", "", "Action=DescribeInstances&Version=2016-11-15", 403, "MissingAuthenticationToken"},
		{"unknown region", "POST", "/", "ec2@mars-1", "", "Action=DescribeInstances", 403, "InvalidClientTokenId"},
		{"no service", "POST", "/", "", "", "Action=DescribeInstances&Version=1999-01-01", 400, "InvalidAction"},
		{"GET of nothing", "GET", "/", "ec2", "", "", 400, "MissingAction"},
		{"broken JSON", "POST", "/", "ssm", "AmazonSSM.GetParameter", "{", 400, "SerializationException"},
		{"wrong type in JSON", "POST", "/", "sqs", "AmazonSQS.ReceiveMessage", `{"QueueUrl":5}`, 400, "SerializationException"},
		{"unknown target", "POST", "/", "dynamodb", "DynamoDB_20120810.GetItem", "{}", 400, "UnknownOperationException"},
		{"unknown operation", "POST", "/", "ssm", "AmazonSSM.Fly", "{}", 400, "UnknownOperationException"},
		{"unknown cluster", "GET", "/clusters/none", "eks", "", "", 404, "ResourceNotFoundException"},
		{"broken EKS body", "POST", "/clusters", "eks", "", "{", 400, "SerializationException"},
		{"bad IAM name", "POST", "/", "iam", "", "Action=CreateRole&RoleName=a%20b", 400, "ValidationError"},
		{"bad template", "POST", "/", "cloudformation", "", "Action=CreateStack&StackName=s&TemplateBody=a:%20[", 400, "ValidationError"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body))
			service, region, _ := strings.Cut(tc.auth, "@")
			if service != "" {
				r.Header.Set("Authorization", strings.Replace(authorization("test", service), "us-west-2", orDefault(region, "us-west-2"), 1))
			}
			if tc.target != "" {
				r.Header.Set("X-Amz-Target", tc.target)
			}
			rec := httptest.NewRecorder()
			w.Handler().ServeHTTP(rec, r)
			if rec.Code != tc.status || !strings.Contains(rec.Body.String(), tc.want) {
				t.Errorf("got %d %s, want %d %s", rec.Code, rec.Body, tc.status, tc.want)
			}
		})
	}
}

func TestWildcard(t *testing.T) {
	for _, tc := range []struct {
		pattern, s string
		want       bool
	}{
		{"a*c", "abbc", true},
		{"a*c", "abcd", false},
		{"*", "", true},
		{"?", "", false},
		{"a?c", "abc", true},
		{"*a*b*", "xxaxxbxx", true},
		{`a\*c`, "a*c", true},
		{`a\*c`, "abc", false},
		{"", "", true},
		{"a**", "a", true},
	} {
		if got := wildcard(tc.pattern, tc.s); got != tc.want {
			t.Errorf("wildcard(%q, %q) = %v", tc.pattern, tc.s, got)
		}
	}
}

func TestPagesAreComplete(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	want := launched(w.fleet("spot", 23, "m5.large@"+subnetA))
	var got []string
	token := ""
	for {
		pairs := []string{"MaxResults", "5", "Filter.1.Name", "instance-state-name", "Filter.1.Value.1", "pending"}
		if token != "" {
			pairs = append(pairs, "NextToken", token)
		}
		body := w.must("ec2", "DescribeInstances", pairs...)
		for _, id := range pickAll(body, "instanceId") {
			if !slices.Contains(got, id) {
				got = append(got, id)
			}
		}
		if token = pickFirst(body, "nextToken"); token == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages gave %d instances, want %d", len(got), len(want))
	}
	w.refused("InvalidParameterCombination", "DescribeInstances", "InstanceId.1", want[0], "MaxResults", "5")
	if body := w.refused("InvalidInstanceID.NotFound", "DescribeInstances", "InstanceId.1", "i-1", "InstanceId.2", want[0], "InstanceId.3", "i-3"); !strings.Contains(body, "&#39;i-1, i-3&#39;") && !strings.Contains(body, "'i-1, i-3'") {
		t.Errorf("both should be named: %s", body)
	}
	w.refused("InvalidParameterValue", "DescribeInstances", "MaxResults", "1001")
}

// small makes a world that is quick to make.
func small(o *Options) { o.KubernetesVersions = []string{"1.34"} }

// FuzzQuery sends anything to the query services: the answer is always well
// formed, never a 5xx, never a panic.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large",
		"Action=RunInstances&MinCount=1&MaxCount=1&ImageId=ami-1&BlockDeviceMapping.1.Ebs.VolumeSize=x",
		"Action=DescribeInstances&Filter.1.Name=tag:a&Filter.1.Value.1=*&MaxResults=5", "Action=CreateTags&ResourceId.1=subnet-0abc123&Tag.1.Key=a",
		"Action=CreateLaunchTemplate&LaunchTemplateName=abc&LaunchTemplateData.UserData=%%%", "Action=DescribeSpotPriceHistory&StartTime=2025-01-01T00:00:00Z",
		"Action=CreateStack&StackName=s&Capabilities.member.1=CAPABILITY_NAMED_IAM&TemplateBody=Resources:%20{Q:%20{Type:%20AWS::SQS::Queue}}",
		"Action=CreateRole&RoleName=r&AssumeRolePolicyDocument={}", "Action=AssumeRole&RoleArn=arn:aws:iam::1:role/x", "Action=SendMessage&QueueUrl=q&MessageBody=x",
		"Action=CreateCapacityReservation&InstanceType=m5.large&AvailabilityZone=us-west-2a&InstanceCount=1&TagSpecifications.1.Tag.1.Key=a",
	} {
		for _, service := range []string{"ec2", "iam", "sts", "cloudformation", "sqs"} {
			f.Add(service, s)
		}
	}
	f.Fuzz(func(t *testing.T, service, form string) {
		if !slices.Contains([]string{"ec2", "iam", "sts", "cloudformation", "sqs"}, service) || strings.Contains(form, "ReceiveMessage") {
			return
		}
		w := newTestWorld(t, small)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form))
		r.Header.Set("Authorization", authorization("test", service))
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, r)
		if rec.Code >= 500 {
			t.Fatalf("%s %s: %d %s", service, form, rec.Code, rec.Body)
		}
		d := xml.NewDecoder(rec.Body)
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s %s: the answer is not XML: %v", service, form, err)
			}
		}
	})
}

// FuzzJSON does the same for the JSON and REST services.
func FuzzJSON(f *testing.F) {
	for _, s := range [][2]string{
		{"AmazonSQS.SendMessage", `{"QueueUrl":"http://x/q","MessageBody":"b","DelaySeconds":1}`},
		{"AmazonSQS.CreateQueue", `{"QueueName":"a","Attributes":{"VisibilityTimeout":"x"}}`},
		{"AmazonSSM.GetParameter", `{"Name":"/a"}`},
		{"AmazonSSM.GetParametersByPath", `{"Path":"/aws","Recursive":true,"MaxResults":3}`},
		{"AWSPriceListService.GetProducts", `{"ServiceCode":"AmazonEC2","Filters":[{"Field":"instanceType","Value":"m5.large"}]}`},
		{"AWSEvents.PutRule", `{"Name":"r","EventPattern":"{\"source\":[{\"prefix\":\"a\"}]}"}`},
		{"AWSEvents.PutEvents", `{"Entries":[{"Source":"a","Detail":"{}"}]}`},
		{"POST /clusters", `{"name":"x"}`},
		{"POST /zonalshifts", `{"expiresIn":"2h"}`},
		{"POST /experimentTemplates", `{"actions":{"a":{}}}`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, target, body string) {
		if strings.Contains(target, "ReceiveMessage") {
			return
		}
		w := newTestWorld(t, small)
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		if method, path, ok := strings.Cut(target, " "); ok {
			u, err := url.ParseRequestURI(path)
			if err != nil || !slices.Contains([]string{"GET", "POST", "DELETE"}, method) || strings.HasPrefix(path, "/_sim") {
				return
			}
			r.Method, r.URL = method, u
		} else {
			r.Header.Set("X-Amz-Target", target)
		}
		r.Header.Set("Authorization", authorization("test", "eks"))
		rec := httptest.NewRecorder()
		w.Handler().ServeHTTP(rec, r)
		if rec.Code >= 500 {
			t.Fatalf("%s %s: %d %s", target, body, rec.Code, rec.Body)
		}
	})
}

// BenchmarkDescribeInstances asks for one of 5,000 instances by its id, the
// call that controllers make most.
func BenchmarkDescribeInstances(b *testing.B) {
	h, ids := fullWorld(b, 5000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("Action=DescribeInstances&Version=2016-11-15&InstanceId.1="+ids[i%len(ids)]))
			r.Header.Set("Authorization", authorization("test", "ec2"))
			h.ServeHTTP(rec, r)
			if rec.Code != 200 {
				b.Fatal(rec.Body)
			}
		}
	})
}

// fullWorld is a world with n instances.
func fullWorld(tb testing.TB, n int) (http.Handler, []string) {
	tb.Helper()
	s, err := New(Options{Clock: NewManual(epoch), Clusters: []Cluster{{Name: "c1"}}})
	if err != nil {
		tb.Fatal(err)
	}
	send := func(form string) string {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form))
		r.Header.Set("Authorization", authorization("test", "ec2"))
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, r)
		if rec.Code != 200 {
			tb.Fatal(rec.Body)
		}
		return rec.Body.String()
	}
	image := pickFirst(send("Action=DescribeImages&Filter.1.Name=name&Filter.1.Value.1=amazon-eks-node-al2023-x86_64-standard-1.34-v20250920"), "imageId")
	send("Action=CreateLaunchTemplate&LaunchTemplateName=tpl&LaunchTemplateData.ImageId=" + image + "&LaunchTemplateData.UserData=" + url.QueryEscape(encoded(strings.Repeat("x", 4000))))
	var ids []string
	for len(ids) < n {
		form := url.Values{}
		pairs := fleetPairs("tpl", "spot", min(1000, n-len(ids)), "m5.large@"+subnetA)
		for i := 0; i < len(pairs); i += 2 {
			form.Set(pairs[i], pairs[i+1])
		}
		form.Set("Action", "CreateFleet")
		for i := range 8 {
			form.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", i+1), fmt.Sprintf("karpenter.sh/some-tag-%d", i))
			form.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", i+1), "a value of usual length")
		}
		form.Set("TagSpecification.1.ResourceType", "instance")
		ids = append(ids, launched(send(form.Encode()))...)
	}
	return s.Handler(), ids
}

// TestNamesCanBeUsedAgain: what was deleted and made again is there once.
func TestNamesCanBeUsedAgain(t *testing.T) {
	w := newTestWorld(t, nil)
	w.prepareLaunch()
	for range 3 {
		w.must("iam", "RemoveRoleFromInstanceProfile", "InstanceProfileName", "node", "RoleName", "node")
		w.must("iam", "DeleteInstanceProfile", "InstanceProfileName", "node")
		w.must("iam", "CreateInstanceProfile", "InstanceProfileName", "node")
		w.must("iam", "AddRoleToInstanceProfile", "InstanceProfileName", "node", "RoleName", "node")
	}
	if got := pickAll(w.must("iam", "ListInstanceProfiles"), "InstanceProfileName"); len(got) != 1 {
		t.Errorf("profiles %v", got)
	}
}
