package aws

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithytime "github.com/aws/smithy-go/time"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// What EC2 says of a thousand instances is some megabytes of XML, most of it about disks and network interfaces that nobody asked
// for, and it is asked for every two minutes. Making objects of all that takes a second of processor time; a lean call makes objects
// only of what toInstance and tiesOf look at.

// lean is an option of DescribeInstances calls.
func lean(o *ec2.Options) {
	o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
		const reader = "OperationDeserializer"
		whole, ok := s.Deserialize.Get(reader)
		if !ok {
			return errors.New("the SDK has no " + reader)
		}
		_, err := s.Deserialize.Swap(reader, leanly{whole})
		return err
	})
}

// leanly reads answers in place of the SDK, and leaves errors to it.
type leanly struct {
	middleware.DeserializeMiddleware
}

// HandleDeserialize implements middleware.DeserializeMiddleware.
func (l leanly) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	out, metadata, err = next.HandleDeserialize(ctx, in)
	response, ok := out.RawResponse.(*smithyhttp.Response)
	if err != nil || !ok || response.StatusCode < 200 || response.StatusCode >= 300 {
		answer := middleware.DeserializeHandlerFunc(func(context.Context, middleware.DeserializeInput) (middleware.DeserializeOutput, middleware.Metadata, error) {
			return out, metadata, err
		})
		return l.DeserializeMiddleware.HandleDeserialize(ctx, in, answer)
	}
	defer func() { smithyhttp.CloseResponseBody(ctx, response, false, err) }()
	if out.Result, err = readInstances(response.Body); err != nil {
		return out, metadata, &smithy.DeserializationError{Err: fmt.Errorf("reading instances: %w", err)}
	}
	return out, metadata, nil
}

// below is where instances are in an answer.
const below = "/DescribeInstancesResponse/reservationSet/item/instancesSet/item"

// readInstances reads an answer to DescribeInstances.
func readInstances(body io.Reader) (*ec2.DescribeInstancesOutput, error) {
	a := &instancesAnswer{words: map[string]string{}}
	if err := readXML(body, a.begin, a.leaf); err != nil {
		return nil, err
	}
	return &ec2.DescribeInstancesOutput{NextToken: a.token, Reservations: []types.Reservation{{Instances: a.list}}}, nil
}

// instancesAnswer is what has been read so far.
type instancesAnswer struct {
	token *string
	list  []types.Instance
	words map[string]string // values that instances have in common
}

func (a *instancesAnswer) word(text []byte) *string {
	s, ok := a.words[string(text)]
	if !ok {
		s = string(text)
		a.words[s] = s
	}
	return &s
}

func (a *instancesAnswer) begin(path []byte) {
	rest, inside := bytes.CutPrefix(path, []byte(below))
	if inside && len(rest) == 0 {
		a.list = append(a.list, types.Instance{})
	}
	if !inside || len(a.list) == 0 {
		return
	}
	i := &a.list[len(a.list)-1]
	switch string(rest) {
	case "/placement":
		i.Placement = &types.Placement{}
	case "/tagSet/item":
		i.Tags = append(i.Tags, types.Tag{})
	case "/groupSet/item":
		i.SecurityGroups = append(i.SecurityGroups, types.GroupIdentifier{})
	}
}

func (a *instancesAnswer) leaf(path, text []byte) error {
	rest, inside := bytes.CutPrefix(path, []byte(below+"/"))
	if !inside {
		if string(path) == "/DescribeInstancesResponse/nextToken" && len(text) > 0 {
			a.token = aws.String(string(text))
		}
		return nil
	}
	i := &a.list[len(a.list)-1]
	if inner, ok := bytes.CutPrefix(rest, []byte("placement/")); ok {
		return a.placement(i, inner, text)
	}
	switch string(rest) {
	case "instanceId":
		i.InstanceId = aws.String(string(text))
	case "imageId":
		i.ImageId = a.word(text)
	case "instanceType":
		i.InstanceType = types.InstanceType(*a.word(text))
	case "launchTime":
		at, err := smithytime.ParseDateTime(string(text))
		if err != nil {
			return fmt.Errorf("launch time of instance %s: %w", aws.ToString(i.InstanceId), err)
		}
		i.LaunchTime = &at
	case "instanceState/name":
		i.State = &types.InstanceState{Name: types.InstanceStateName(*a.word(text))}
	case "subnetId":
		i.SubnetId = a.word(text)
	case "instanceLifecycle":
		i.InstanceLifecycle = types.InstanceLifecycleType(*a.word(text))
	case "spotInstanceRequestId":
		i.SpotInstanceRequestId = aws.String(string(text))
	case "capacityReservationId":
		i.CapacityReservationId = a.word(text)
	case "capacityReservationSpecification/capacityReservationPreference":
		i.CapacityReservationSpecification = &types.CapacityReservationSpecificationResponse{
			CapacityReservationPreference: types.CapacityReservationPreference(*a.word(text)),
		}
	case "tagSet/item/key":
		i.Tags[len(i.Tags)-1].Key = a.word(text)
	case "tagSet/item/value":
		i.Tags[len(i.Tags)-1].Value = a.word(text)
	case "groupSet/item/groupId":
		i.SecurityGroups[len(i.SecurityGroups)-1].GroupId = a.word(text)
	}
	return nil
}

func (a *instancesAnswer) placement(i *types.Instance, path, text []byte) error {
	switch string(path) {
	case "availabilityZone":
		i.Placement.AvailabilityZone = a.word(text)
	case "availabilityZoneId":
		i.Placement.AvailabilityZoneId = a.word(text)
	case "tenancy":
		i.Placement.Tenancy = types.Tenancy(*a.word(text))
	case "groupId":
		i.Placement.GroupId = a.word(text)
	case "partitionNumber":
		n, err := strconv.ParseInt(string(text), 10, 32)
		if err != nil {
			return fmt.Errorf("partition of instance %s: %w", aws.ToString(i.InstanceId), err)
		}
		i.Placement.PartitionNumber = aws.Int32(int32(n))
	}
	return nil
}

// readXML calls begin at the start of each element, and leaf at the end of each that has none inside. Paths are the names of the
// elements from the root down, each behind a slash. What both are given is theirs until they return. It knows what AWS's services
// write: no document types, and names without prefixes.
func readXML(from io.Reader, begin func(path []byte), leaf func(path, text []byte) error) error {
	x := &xmlReader{in: bufio.NewReaderSize(from, 64<<10)}
	var path []byte
	isLeaf, any := false, false
	for {
		if err := x.next(); err != nil {
			if errors.Is(err, io.EOF) && len(path) == 0 && any && len(bytes.TrimSpace(x.text)) == 0 {
				return nil
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if x.opens {
			if len(path) == 0 && any {
				return fmt.Errorf("a second document, <%s>", x.name)
			}
			path = append(append(path, '/'), x.name...)
			isLeaf, any = true, true
			begin(path)
			x.text = x.text[:0]
		}
		if x.closes {
			slash := bytes.LastIndexByte(path, '/')
			if slash < 0 || !x.opens && !bytes.Equal(path[slash+1:], x.name) {
				return fmt.Errorf("</%s> ends what has not begun", x.name)
			}
			if isLeaf {
				if err := leaf(path, plain(x.text)); err != nil {
					return err
				}
			}
			path, isLeaf = path[:slash], false
		}
	}
}

// plain is text as it was before it was put into XML.
func plain(text []byte) []byte {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if bytes.IndexByte(text, '&') >= 0 {
		text = []byte(html.UnescapeString(string(text)))
	}
	return text
}

// xmlReader reads one tag after the other.
type xmlReader struct {
	in *bufio.Reader
	// text is what was in front of the tag; name is the tag's, which opens an element, closes one, or both.
	text, tag, name []byte
	opens, closes   bool
}

// maxXML bounds a tag and a text.
const maxXML = 1 << 20

func (x *xmlReader) next() (err error) {
	x.text = x.text[:0]
	for {
		if x.text, err = x.until(x.text, '<'); err != nil {
			return err
		}
		if x.tag, err = x.until(x.tag[:0], '>'); err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(x.tag, []byte("?")):
			err = x.through("?")
		case bytes.HasPrefix(x.tag, []byte("!--")):
			err = x.through("--")
		case bytes.HasPrefix(x.tag, []byte("![CDATA[")):
			if err = x.through("]]"); err == nil {
				x.text = append(x.text, html.EscapeString(string(x.tag[len("![CDATA["):len(x.tag)-len("]]")]))...)
			}
		default:
			for err == nil && bytes.Count(x.tag, []byte(`"`))%2 != 0 { // within an attribute's value
				x.tag, err = x.until(append(x.tag, '>'), '>')
			}
			if err == nil {
				return x.named()
			}
		}
		if err != nil {
			return err
		}
	}
}

// named takes the tag apart.
func (x *xmlReader) named() error {
	x.name, x.closes = bytes.CutPrefix(x.tag, []byte("/"))
	x.opens = !x.closes
	if inner, both := bytes.CutSuffix(x.name, []byte("/")); both && x.opens {
		x.name, x.closes = inner, true
	}
	if space := bytes.IndexAny(x.name, " \t\r\n"); space >= 0 {
		x.name = x.name[:space]
	}
	if len(x.name) == 0 || bytes.ContainsAny(x.name, "</!") {
		return fmt.Errorf("<%.50s> is not a tag", x.tag)
	}
	return nil
}

// through reads on until the tag ends with these characters.
func (x *xmlReader) through(end string) (err error) {
	for err == nil && !bytes.HasSuffix(x.tag, []byte(end)) {
		x.tag, err = x.until(append(x.tag, '>'), '>')
	}
	return err
}

// until appends what comes before the next mark, and skips that.
func (x *xmlReader) until(to []byte, mark byte) ([]byte, error) {
	for {
		part, err := x.in.ReadSlice(mark)
		to = append(to, part...)
		switch {
		case err == nil:
			return to[:len(to)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return to, err
		case len(to) > maxXML:
			return to, fmt.Errorf("more than %d bytes without %q", maxXML, mark)
		}
	}
}
