package aws

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"karpenter/internal/cloud"
)

// canned answers every request with the same text.
type canned string

func (c canned) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// bySDK has the SDK itself read an answer.
func bySDK(t testing.TB, answer string) (*ec2.DescribeInstancesOutput, error) {
	t.Helper()
	client := ec2.New(ec2.Options{Region: "us-west-2", Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), HTTPClient: canned(answer), RetryMaxAttempts: 1})
	return client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
}

// read is all that is read of an answer.
type read struct {
	Token     string
	Instances []*cloud.Instance
	Ties      []ties
}

func readOf(p *Provider, out *ec2.DescribeInstancesOutput) (r read) {
	r.Token = aws.ToString(out.NextToken)
	for _, reservation := range out.Reservations {
		for i := range reservation.Instances {
			in := &reservation.Instances[i]
			r.Instances, r.Ties = append(r.Instances, p.toInstance(in)), append(r.Ties, tiesOf(in))
		}
	}
	return r
}

// eachField is an answer in which everything that is read has a value of its own, with what XML allows around it.
const eachField = `<?xml version="1.0" encoding="UTF-8"?>
<!-- two of a kind -> and one more -->
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/" x="a>b"><requestId>r</requestId>
<reservationSet><item><reservationId>r-1</reservationId><groupSet><item><groupId>sg-0r</groupId></item></groupSet><instancesSet>
 <item><instanceId>i-1</instanceId><imageId>ami-1</imageId><instanceState><code>16</code><name>running</name></instanceState>
  <instanceType>m5.large</instanceType><launchTime>2026-11-15T10:11:12.000Z</launchTime>
  <placement><availabilityZone>us-west-2a</availabilityZone><availabilityZoneId>usw2-az1</availabilityZoneId><tenancy>default</tenancy><groupId>pg-1</groupId><partitionNumber>3</partitionNumber></placement>
  <subnetId>subnet-1</subnetId><instanceLifecycle>spot</instanceLifecycle><spotInstanceRequestId>sir-1</spotInstanceRequestId>
  <groupSet><item><groupId>sg-2</groupId><groupName>b</groupName></item><item><groupId>sg-1</groupId></item></groupSet>
  <networkInterfaceSet><item><subnetId>subnet-9</subnetId><groupSet><item><groupId>sg-9</groupId></item></groupSet><tagSet><item><key>no</key><value>no</value></item></tagSet></item></networkInterfaceSet>
  <tagSet><item><key>a&amp;b &#x41;&#66;</key><value>&lt;1&gt; &quot;x&quot; &apos;</value></item><item><key>empty</key><value/></item><item><key>raw</key><value><![CDATA[a<b&amp;]]></value></item><item><value>later</value><key>turned</key></item></tagSet>
 </item><item><instanceId>i-2</instanceId><capacityReservationId>cr-1</capacityReservationId>
  <capacityReservationSpecification><capacityReservationPreference>capacity-reservations-only</capacityReservationPreference></capacityReservationSpecification>
  <instanceLifecycle>capacity-block</instanceLifecycle></item>
</instancesSet></item><item><instancesSet/></item></reservationSet><nextToken>more</nextToken></DescribeInstancesResponse>
`

// TestLeanAnswersAreReadAsTheSDKReadsThem compares what is read with and without the SDK's own reader.
func TestLeanAnswersAreReadAsTheSDKReadsThem(t *testing.T) {
	p := New(Options{ReservedCapacity: true})
	whole, err := bySDK(t, eachField)
	if err != nil {
		t.Fatal(err)
	}
	slim, err := readInstances(strings.NewReader(eachField))
	if err != nil {
		t.Fatal(err)
	}
	want := readOf(p, whole)
	if diff := cmp.Diff(want, readOf(p, slim), cmpopts.EquateEmpty(), cmp.AllowUnexported(ties{})); diff != "" {
		t.Error(diff)
	}
	if in := want.Instances; len(in) != 2 || len(in[0].Tags) != 4 || len(in[0].Labels) != 4 || in[1].CapacityType != "reserved" || want.Token != "more" {
		t.Errorf("the answer has too little in it: %+v", want)
	}
}

// TestLeanAnswersOfTheSimulator does the same with what comes over the wire, and sees that EC2's errors are what they were.
func TestLeanAnswersOfTheSimulator(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.one("web", onDemandOnly, typeIs("m5.large"))
	w.one("spot", typeIs("m5.large"))
	var outs []read
	for _, options := range [][]func(*ec2.Options){nil, {lean}} {
		out, err := w.opt.Clients.EC2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{}, options...)
		w.must(err)
		outs = append(outs, readOf(w.Provider, out))
		_, err = w.opt.Clients.EC2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-00000000000000000"}}, options...)
		if got := readError("get", err); cloud.ClassOf(got) != cloud.NotFound {
			t.Errorf("an instance that there is not: %v", got)
		}
	}
	if diff := cmp.Diff(outs[0], outs[1], cmpopts.EquateEmpty(), cmp.AllowUnexported(ties{})); diff != "" || len(outs[0].Instances) < 2 {
		t.Errorf("%d instances\n%s", len(outs[0].Instances), diff)
	}
}

func TestLeanAnswersThatAreBroken(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": "", "cut": eachField[:len(eachField)/2], "cut in a tag": "<a><b", "ends otherwise": "<a><b></a></b>", "ends twice": "<a></a></a>",
		"two": "<a/><b/>", "no tag": "<a>< ></a>", "text behind": "<a/>x", "no date": strings.Replace(eachField, "2026-11-15T", "yesterday ", 1),
		"no number": strings.Replace(eachField, "<partitionNumber>3", "<partitionNumber>three", 1),
	} {
		if _, err := readInstances(strings.NewReader(answer)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzLeanAnswers: no answer is too much, and where both readers take one they read the same.
func FuzzLeanAnswers(f *testing.F) {
	f.Add([]byte(eachField))
	f.Add([]byte("<DescribeInstancesResponse><reservationSet><item><instancesSet><item/></instancesSet></item></reservationSet></DescribeInstancesResponse>"))
	p := New(Options{ReservedCapacity: true})
	f.Fuzz(func(t *testing.T, answer []byte) {
		slim, err := readInstances(bytes.NewReader(answer))
		if err != nil || bytes.ContainsAny(answer, ":&\r!") || !bytes.HasPrefix(answer, []byte("<DescribeInstancesResponse>")) {
			return // what only one of both takes, or takes otherwise, AWS does not write
		}
		whole, err := bySDK(t, string(answer))
		if err != nil {
			return
		}
		if diff := cmp.Diff(readOf(p, whole).Instances, readOf(p, slim).Instances, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// BenchmarkInstances is the answer for a page of instances.
func BenchmarkInstances(b *testing.B) {
	const begin, end = " <item><instanceId>", "</instancesSet>"
	from := strings.Index(eachField, begin)
	one := eachField[from:strings.Index(eachField, end)]
	answer := eachField[:from] + strings.Repeat(one, instancesPage/2) + eachField[from+len(one):]
	b.Run("SDK", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bySDK(b, answer); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lean", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if out, err := readInstances(strings.NewReader(answer)); err != nil || len(out.Reservations[0].Instances) != instancesPage {
				b.Fatal(err)
			}
		}
	})
}
