package aws

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/aws/smithy-go/time"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// briefly has DescribeInstances decode only what toShape and tiesOf look at. All instances are listed every two minutes; decoded by the
// SDK, that was half of what a controller with a thousand nodes computes while nothing changes, and most of its garbage. What is not
// understood here, and every error, is left to the SDK.
func briefly(o *ec2.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		var whole middleware.DeserializeMiddleware
		brief := middleware.DeserializeMiddlewareFunc("OperationDeserializer", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
			var decoded *ec2.DescribeInstancesOutput
			out, metadata, err := whole.HandleDeserialize(ctx, in, middleware.DeserializeHandlerFunc(func(ctx context.Context, in middleware.DeserializeInput) (middleware.DeserializeOutput, middleware.Metadata, error) {
				out, metadata, err := next.HandleDeserialize(ctx, in)
				if response, ok := out.RawResponse.(*smithyhttp.Response); ok && err == nil && response.StatusCode == http.StatusOK {
					decoded = take(response)
				}
				return out, metadata, err
			}))
			if err == nil && decoded != nil {
				out.Result = decoded
			}
			return out, metadata, err
		})
		var err error
		whole, err = stack.Deserialize.Swap(brief.ID(), brief)
		return err
	})
}

// bodies are for answers while they are read: a page of them has a megabyte.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// take decodes an answer. What it leaves in the body is for the SDK: nothing, for which that has an empty result, or all of it if the answer
// is not understood.
func take(response *smithyhttp.Response) *ec2.DescribeInstancesOutput {
	buffer := bodies.Get().(*bytes.Buffer)
	buffer.Reset()
	_, err := buffer.ReadFrom(response.Body)
	if err == nil {
		if out, ok := decodeInstances(buffer.Bytes()); ok {
			bodies.Put(buffer)
			response.Body = rest{bytes.NewReader(nil), response.Body}
			return out
		}
	}
	response.Body = rest{io.MultiReader(buffer, failing{err}), response.Body}
	return nil
}

type rest struct {
	io.Reader
	io.Closer
}

// failing is the end of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// decodeInstances decodes an answer of DescribeInstances; false if there is something in it that EC2 does not usually write.
func decodeInstances(data []byte) (*ec2.DescribeInstancesOutput, bool) {
	if !utf8.Valid(data) || bytes.IndexByte(data, '\r') >= 0 {
		return nil, false
	}
	d := &decoder{data: data, known: map[string]string{}}
	out := &ec2.DescribeInstancesOutput{}
	if !d.open() {
		return nil, false
	}
	d.each(func(name string) {
		switch name {
		case "nextToken":
			out.NextToken = d.pointer()
		case "reservationSet":
			d.items(func() {
				var r types.Reservation
				d.each(func(name string) {
					if name == "instancesSet" {
						d.items(func() { r.Instances = append(r.Instances, d.instance()) })
					}
				})
				out.Reservations = append(out.Reservations, r)
			})
		}
	})
	return out, d.err == nil && len(bytes.TrimSpace(d.data[d.at:])) == 0
}

// instance decodes one.
func (d *decoder) instance() (i types.Instance) {
	d.each(func(name string) {
		switch name {
		case "instanceId":
			i.InstanceId = d.pointer()
		case "instanceType":
			i.InstanceType = types.InstanceType(d.text())
		case "imageId":
			i.ImageId = d.pointer()
		case "launchTime":
			at, err := time.ParseDateTime(d.text())
			d.fail(err)
			i.LaunchTime = &at
		case "instanceState":
			i.State = &types.InstanceState{}
			d.each(func(name string) {
				if name == "name" {
					i.State.Name = types.InstanceStateName(d.text())
				}
			})
		case "placement":
			i.Placement = d.placement()
		case "tagSet":
			d.items(func() { i.Tags = append(i.Tags, d.tag()) })
		case "groupSet":
			d.items(func() {
				var g types.GroupIdentifier
				d.each(func(name string) {
					if name == "groupId" {
						g.GroupId = d.pointer()
					}
				})
				i.SecurityGroups = append(i.SecurityGroups, g)
			})
		case "subnetId":
			i.SubnetId = d.pointer()
		case "instanceLifecycle":
			i.InstanceLifecycle = types.InstanceLifecycleType(d.text())
		case "spotInstanceRequestId":
			i.SpotInstanceRequestId = d.pointer()
		case "capacityReservationId":
			i.CapacityReservationId = d.pointer()
		case "capacityReservationSpecification":
			i.CapacityReservationSpecification = &types.CapacityReservationSpecificationResponse{}
			d.each(func(name string) {
				if name == "capacityReservationPreference" {
					i.CapacityReservationSpecification.CapacityReservationPreference = types.CapacityReservationPreference(d.text())
				}
			})
		}
	})
	return i
}

func (d *decoder) placement() *types.Placement {
	p := &types.Placement{}
	d.each(func(name string) {
		switch name {
		case "availabilityZone":
			p.AvailabilityZone = d.pointer()
		case "availabilityZoneId":
			p.AvailabilityZoneId = d.pointer()
		case "tenancy":
			p.Tenancy = types.Tenancy(d.text())
		case "groupId":
			p.GroupId = d.pointer()
		case "partitionNumber":
			n, err := strconv.ParseInt(d.text(), 10, 32)
			d.fail(err)
			p.PartitionNumber = aws.Int32(int32(n))
		}
	})
	return p
}

func (d *decoder) tag() (t types.Tag) {
	d.each(func(name string) {
		switch name {
		case "key":
			t.Key = d.pointer()
		case "value":
			t.Value = d.pointer()
		}
	})
	return t
}

// decoder reads XML as EC2 writes it: elements and text, and no comments, sections or prefixes. After an error it finds nothing any more.
type decoder struct {
	data []byte
	at   int
	// name is that of the last tag, unread whether it has opened an element that nobody has read yet, and empty whether that ends there, too.
	name          string
	unread, empty bool
	// known has every text once: types, zones and tags repeat.
	known map[string]string
	err   error
}

var errUnusual = errors.New("not as EC2 writes XML")

func (d *decoder) fail(err error) {
	if d.err == nil && err != nil {
		d.err = err
	}
}

// next reads on to the end of the next tag. It is what is between the two tags, and whether the second one ends an element.
func (d *decoder) next() (text []byte, ends bool) {
	if d.err != nil {
		return nil, true
	}
	for {
		length := bytes.IndexByte(d.data[d.at:], '<')
		if length < 0 {
			d.fail(errUnusual)
			return nil, true
		}
		text = d.data[d.at : d.at+length]
		d.at += length + 1
		length = bytes.IndexByte(d.data[d.at:], '>')
		if length < 1 {
			d.fail(errUnusual)
			return nil, true
		}
		tag := d.data[d.at : d.at+length]
		d.at += length + 1
		if tag[0] == '?' && d.name == "" { // before the first element
			continue
		}
		if ends = tag[0] == '/'; ends {
			tag = tag[1:]
		}
		if d.empty = len(tag) > 0 && tag[len(tag)-1] == '/'; d.empty {
			tag = tag[:len(tag)-1]
		}
		if i := bytes.IndexByte(tag, ' '); i >= 0 { // attributes, which say nothing here
			if bytes.Count(tag, []byte{'"'})%2 != 0 || bytes.IndexByte(tag, '\'') >= 0 {
				d.fail(errUnusual)
			}
			tag = tag[:i]
		}
		if len(tag) == 0 || bytes.ContainsAny(tag, ":!?/\t\n\"") || ends && d.empty {
			d.fail(errUnusual)
		}
		d.name, d.unread = d.word(tag), !ends
		return text, ends
	}
}

// word is a text of which there is one copy.
func (d *decoder) word(text []byte) string {
	if s, ok := d.known[string(text)]; ok {
		return s
	}
	s := string(text)
	d.known[s] = s
	return s
}

// open reads the start of the first element.
func (d *decoder) open() bool {
	text, ends := d.next()
	if ends || len(bytes.TrimSpace(text)) > 0 {
		d.fail(errUnusual)
	}
	return d.err == nil
}

// enter begins to read the element that has been opened; false if there is nothing in it.
func (d *decoder) enter() (name string, inside bool) {
	d.unread = false
	return d.name, !d.empty && d.err == nil
}

// each visits the elements inside the one that has been opened. What a visit does not read is left out.
func (d *decoder) each(visit func(name string)) {
	parent, inside := d.enter()
	for inside && d.err == nil {
		text, ends := d.next()
		switch {
		case d.err != nil:
		case len(bytes.TrimSpace(text)) > 0, ends && d.name != parent:
			d.fail(errUnusual)
		case ends:
			return
		default:
			if visit(d.name); d.unread {
				d.skip()
			}
		}
	}
}

// items visits the members of a list.
func (d *decoder) items(visit func()) {
	d.each(func(name string) {
		if name == "item" {
			visit()
		}
	})
}

// skip reads on to the end of the element that has been opened.
func (d *decoder) skip() {
	parent, inside := d.enter()
	for inside && d.err == nil {
		if _, ends := d.next(); !ends {
			d.skip()
		} else if d.name == parent {
			return
		} else {
			d.fail(errUnusual)
		}
	}
}

// text is what the element that has been opened holds.
func (d *decoder) text() string {
	parent, inside := d.enter()
	if !inside {
		return ""
	}
	text, ends := d.next()
	if !ends || d.name != parent {
		d.fail(errUnusual)
	}
	if bytes.IndexByte(text, '&') < 0 {
		return d.word(text)
	}
	return d.word(d.unescape(text))
}

func (d *decoder) pointer() *string {
	s := d.text()
	return &s
}

var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\''}

func (d *decoder) unescape(text []byte) []byte {
	var out []byte
	for {
		before, after, found := bytes.Cut(text, []byte{'&'})
		out = append(out, before...)
		if !found {
			return out
		}
		name, after, found := bytes.Cut(after, []byte{';'})
		r, ok := entities[string(name)]
		if number, is := strings.CutPrefix(string(name), "#"); is {
			base := 10
			if hex, is := strings.CutPrefix(number, "x"); is {
				number, base = hex, 16
			}
			n, err := strconv.ParseUint(number, base, 32)
			r, ok = rune(n), err == nil && n <= utf8.MaxRune && utf8.ValidRune(rune(n))
		}
		if !found || !ok {
			d.fail(errUnusual)
			return nil
		}
		out, text = utf8.AppendRune(out, r), after
	}
}
