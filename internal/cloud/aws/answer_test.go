package aws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"karpenter/cloud"
)

// answers is EC2 that has one answer.
type answers struct {
	status int
	body   io.Reader
}

func (a answers) Do(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(a.body)}, nil
}

// taken is what the provider takes over of an answer.
type taken struct {
	shapes    []*cloud.Instance
	ties      []ties
	token     string
	instances []int // of each reservation
}

// ask has the SDK decode an answer, with options or as it is.
func ask(t testing.TB, status int, body io.Reader, options ...func(*ec2.Options)) (taken, error) {
	t.Helper()
	client := ec2.New(ec2.Options{Region: "us-west-2", HTTPClient: answers{status, body}, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: aws.NopRetryer{}})
	out, err := client.DescribeInstances(context.Background(), &ec2.DescribeInstancesInput{}, options...)
	if err != nil {
		return taken{}, err
	}
	return takeOver(out), nil
}

func takeOver(out *ec2.DescribeInstancesOutput) (got taken) {
	p := &Provider{opt: Options{ReservedCapacity: true, Cluster: Cluster{Name: "test"}}}
	got.token = fmt.Sprint(out.NextToken != nil, aws.ToString(out.NextToken))
	for _, r := range out.Reservations {
		got.instances = append(got.instances, len(r.Instances))
		for i := range r.Instances {
			got.shapes, got.ties = append(got.shapes, p.toShape(&r.Instances[i])), append(got.ties, tiesOf(&r.Instances[i]))
		}
	}
	return got
}

func (t taken) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, t.token, t.instances)
	for i := range t.shapes {
		fmt.Fprintf(&b, "%+v %+v\n", *t.shapes[i], t.ties[i])
	}
	return b.String()
}

// Answers in the form that EC2's reference shows, and in forms that it does not have.
var described = map[string]string{
	"as documented": `<?xml version="1.0" encoding="UTF-8"?>
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>8f7724cf</requestId>
    <reservationSet>
        <item>
            <reservationId>r-1</reservationId>
            <groupSet/>
            <instancesSet>
                <item>
                    <instanceId>i-1</instanceId>
                    <imageId>ami-1</imageId>
                    <instanceState>
                        <code>16</code>
                        <name>running</name>
                    </instanceState>
                    <reason/>
                    <instanceType>m5.large</instanceType>
                    <launchTime>2026-11-18T06:00:00.000Z</launchTime>
                    <placement>
                        <availabilityZone>us-west-2a</availabilityZone>
                        <availabilityZoneId>usw2-az1</availabilityZoneId>
                        <groupName/>
                        <groupId>pg-1</groupId>
                        <partitionNumber>3</partitionNumber>
                        <tenancy>default</tenancy>
                    </placement>
                    <subnetId>subnet-1</subnetId>
                    <groupSet>
                        <item>
                            <groupId>sg-2</groupId>
                            <groupName>b</groupName>
                        </item>
                        <item>
                            <groupId>sg-1</groupId>
                            <groupName>a</groupName>
                        </item>
                    </groupSet>
                    <blockDeviceMapping>
                        <item>
                            <deviceName>/dev/xvda</deviceName>
                            <ebs>
                                <volumeId>vol-1</volumeId>
                            </ebs>
                        </item>
                    </blockDeviceMapping>
                    <tagSet>
                        <item>
                            <key>Name</key>
                            <value>a &amp; b &lt;c&gt; &#34;d&#x27; é</value>
                        </item>
                        <item>
                            <key>karpenter.sh/nodepool</key>
                            <value/>
                        </item>
                        <item>
                            <key>kubernetes.io/cluster/test</key>
                            <value>owned</value>
                        </item>
                    </tagSet>
                    <networkInterfaceSet>
                        <item>
                            <groupSet>
                                <item>
                                    <groupId>sg-of-interface</groupId>
                                </item>
                            </groupSet>
                            <subnetId>subnet-of-interface</subnetId>
                            <tagSet/>
                        </item>
                    </networkInterfaceSet>
                    <capacityReservationSpecification>
                        <capacityReservationPreference>capacity-reservations-only</capacityReservationPreference>
                        <capacityReservationTarget>
                            <capacityReservationId>cr-1</capacityReservationId>
                        </capacityReservationTarget>
                    </capacityReservationSpecification>
                    <capacityReservationId>cr-1</capacityReservationId>
                    <instanceLifecycle>capacity-block</instanceLifecycle>
                </item>
                <item>
                    <instanceId>i-2</instanceId>
                    <spotInstanceRequestId>sir-1</spotInstanceRequestId>
                </item>
            </instancesSet>
        </item>
        <item>
            <instancesSet/>
        </item>
    </reservationSet>
    <nextToken>more</nextToken>
</DescribeInstancesResponse>
`,
	"nothing":               `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>`,
	"empty body":            ``,
	"a comment":             `<A><!-- <reservationSet> --><nextToken>x</nextToken></A>`,
	"a section":             `<A><nextToken><![CDATA[<x>]]></nextToken></A>`,
	"a prefix":              `<ec2:A xmlns:ec2="x"><ec2:nextToken>x</ec2:nextToken></ec2:A>`,
	"lines of Windows":      "<A>\r\n<nextToken>a\r\nb</nextToken></A>",
	"text among elements":   `<A>text<nextToken>x</nextToken></A>`,
	"a tag in an attribute": `<A b="<c>"><nextToken>x</nextToken></A>`,
	"an unknown entity":     `<A><nextToken>&nbsp;</nextToken></A>`,
	"cut off":               `<A><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId>`,
	"not closed in order":   `<A><reservationSet><item></reservationSet></item></A>`,
	"a bad time":            `<A><reservationSet><item><instancesSet><item><launchTime>today</launchTime></item></instancesSet></item></reservationSet></A>`,
	"a bad number":          `<A><reservationSet><item><instancesSet><item><placement><partitionNumber>x</partitionNumber></placement></item></instancesSet></item></reservationSet></A>`,
	"not UTF-8":             "<A><nextToken>\xff</nextToken></A>",
	"two documents":         `<A><nextToken>x</nextToken></A><A></A>`,
	"an error":              `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slower</Message></Error></Errors><RequestID>r</RequestID></Response>`,
}

// TestAnswer_AsTheSDK: what is decoded by us is what the SDK decodes, and errors are the SDK's own.
func TestAnswer_AsTheSDK(t *testing.T) {
	for name, body := range described {
		for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			want, wantErr := ask(t, status, strings.NewReader(body))
			got, err := ask(t, status, strings.NewReader(body), briefly)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s, %d: error %v, the SDK's is %v", name, status, err, wantErr)
			} else if got.String() != want.String() {
				t.Errorf("%s, %d: decoded\n%v, the SDK decodes\n%v", name, status, got, want)
			}
		}
	}
	if _, ok := decodeInstances([]byte(described["as documented"])); !ok {
		t.Error("what EC2's reference shows is left to the SDK")
	}
	broken := func() io.Reader {
		return io.MultiReader(strings.NewReader(described["as documented"][:500]), failing{io.ErrUnexpectedEOF})
	}
	_, wantErr := ask(t, http.StatusOK, broken())
	if _, err := ask(t, http.StatusOK, broken(), briefly); wantErr == nil || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("a body that breaks off: %v, the SDK says %v", err, wantErr)
	}
}

// TestAnswer_OfTheSimulator: the same of everything that the AWS simulator says of instances.
func TestAnswer_OfTheSimulator(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.one("spot", spotOnly)
	in := w.one("other", typeIs("m5.large"))
	_, err := w.admin.EC2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{in.ID}, Tags: []types.Tag{{Key: aws.String("a&b"), Value: aws.String(`<"é'>`)}, {Key: aws.String("empty"), Value: aws.String("")}}})
	w.must(err)
	want, err := w.admin.EC2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{})
	w.must(err)
	got, err := w.admin.EC2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{}, briefly)
	w.must(err)
	if a, b := takeOver(got).String(), takeOver(want).String(); a != b || len(want.Reservations) < 2 {
		t.Errorf("decoded\n%s, the SDK decodes\n%s", a, b)
	}
	if len(want.Reservations) > 0 && want.Reservations[0].Instances[0].VpcId == nil || got.Reservations[0].Instances[0].VpcId != nil {
		t.Error("it was not decoded briefly")
	}
}

// FuzzAnswer: whatever both understand, they understand alike.
func FuzzAnswer(f *testing.F) {
	for _, body := range described {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		out, ok := decodeInstances([]byte(body))
		if !ok {
			return
		}
		if want, err := ask(t, http.StatusOK, strings.NewReader(body)); err == nil && takeOver(out).String() != want.String() {
			t.Errorf("decoded\n%v, the SDK decodes\n%v", takeOver(out), want)
		}
	})
}

// BenchmarkAnswer is a page of 200 instances, as the SDK and as we decode it.
func BenchmarkAnswer(b *testing.B) {
	whole := described["as documented"]
	from, to := strings.Index(whole, "        <item>"), strings.LastIndex(whole, "        <item>\n            <instancesSet/>")
	body := whole[:from] + strings.Repeat(whole[from:to], 100) + whole[to:]
	for name, options := range map[string][]func(*ec2.Options){"SDK": nil, "brief": {briefly}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ask(b, http.StatusOK, strings.NewReader(body), options...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
