package simaws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// protocol is how a service talks.
type protocol int

const (
	protoEC2 protocol = iota
	protoQuery
	protoJSON10
	protoJSON11
	protoREST
)

// namespaces are the XML namespaces of the query services.
var namespaces = map[string]string{
	"ec2":            "http://ec2.amazonaws.com/doc/2016-11-15/",
	"iam":            "https://iam.amazonaws.com/doc/2010-05-08/",
	"sts":            "https://sts.amazonaws.com/doc/2011-06-15/",
	"sqs":            "http://queue.amazonaws.com/doc/2012-11-05/",
	"cloudformation": "http://cloudformation.amazonaws.com/doc/2010-05-15/",
	"autoscaling":    "http://autoscaling.amazonaws.com/doc/2011-01-01/",
}

// versions tell the service of a query request that is not signed.
var versions = map[string]string{
	"2016-11-15": "ec2", "2010-05-08": "iam", "2011-06-15": "sts", "2012-11-05": "sqs", "2010-05-15": "cloudformation",
	"2011-01-01": "autoscaling",
}

// targets are the prefixes of the X-Amz-Target header.
var targets = map[string]struct {
	service string
	proto   protocol
}{
	"AmazonSQS":           {"sqs", protoJSON10},
	"AmazonSSM":           {"ssm", protoJSON11},
	"AWSPriceListService": {"pricing", protoJSON11},
	"AWSEvents":           {"events", protoJSON11},
}

// maxBody is larger than any request AWS would take.
const maxBody = 1 << 20

// call is one request on its way through the world.
type call struct {
	place
	service, action string
	proto           protocol
	region          string
	who             *principal
	requestID       string
	at              time.Time

	// q holds the parameters of query calls, body those of JSON calls, rest the
	// path segments of REST calls and form what follows their question mark.
	q    *node
	body []byte
	rest []string
	form url.Values
	// x receives the answer of query calls.
	x *xmlWriter
	// host is how the client reached us; queue URLs repeat it.
	host string
	// behind is how old the world is that a describe shows, by a fault.
	behind time.Duration
	// empty makes a describe show nothing, by a fault.
	empty bool
	// bare and untagged leave things out of the answer, see FaultBare and
	// FaultUntagged.
	bare     bool
	untagged time.Duration
}

// Call is a finished request, for logs.
type Call struct {
	At                      time.Time
	Service, Action, Region string
	// Who is the caller's ARN.
	Who, RequestID string
	Status         int
	// Code and Message are set when the call failed.
	Code, Message string
	// Note is a short remark on what was asked or answered.
	Note string
}

// operation is an entry of a service's table.
type operation struct {
	// writes says that the operation changes the world.
	writes bool
	// authorizes says that the operation checks permissions itself, because
	// they depend on what it names.
	authorizes bool
	query      func(*call) error
	json       func(*call) (any, error)
	// wait runs without the lock; only long polling needs it.
	wait func(*Sim, *call, *http.Request) (any, error)
}

// Handler serves the world over HTTP.
func (s *Sim) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Sim) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.serveControl(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/latest/") {
		s.serveMetadata(w, r)
		return
	}
	n := s.requests.Add(1)
	c := &call{place: place{Sim: s}, requestID: uuidFrom(hash64(s.opt.Seed, n, 7), hash64(n, 11)), at: s.now(), host: r.Host}
	w.Header().Set("X-Amzn-Requestid", c.requestID)
	w.Header().Set("Date", c.at.Format(http.TimeFormat))
	err := s.handle(w, r, c)
	if errors.Is(err, errHangUp) {
		s.report(c, &apiError{Code: "(no answer)", Message: "the connection was dropped by a fault"})
		hangUp(w)
		return
	}
	var e *apiError
	if err != nil {
		if !errors.As(err, &e) {
			e = (&apiError{Code: "InternalError", Message: err.Error()}).withStatus(http.StatusInternalServerError)
		}
		e = c.translate(e)
		writeError(w, c, e)
	}
	s.report(c, e)
	s.deliver()
}

func (s *Sim) report(c *call, e *apiError) {
	if s.opt.OnCall == nil {
		return
	}
	out := Call{At: c.at, Service: c.service, Action: c.action, Region: c.region, RequestID: c.requestID, Status: http.StatusOK, Note: c.note()}
	if c.who != nil {
		out.Who = c.who.ARN
	}
	if e != nil {
		out.Status, out.Code, out.Message = e.Status, e.Code, e.Message
	}
	s.opt.OnCall(out)
}

// Do makes a query call, such as ec2:RunInstances, as the account's administrator, without HTTP, limits and faults; what it answers is
// left to Instances and the like.
func (s *Sim) Do(region, service string, params url.Values) error {
	c := &call{place: place{Sim: s}, service: service, region: region, who: rootOf(s.opt.Account), at: s.now(), proto: protoQuery}
	if globalService(service) {
		c.region = s.opt.Region
	}
	q, refused := parseQuery(params)
	if refused != nil {
		return refused
	}
	c.q, c.action = q, q.str("Action")
	op, err := c.lookup()
	if err != nil {
		return err
	}
	if _, err = s.run(c, op, nil); err != nil {
		err = fmt.Errorf("%s:%s: %w", service, c.action, err)
	} else {
		c.x.free()
	}
	s.report(c, nil)
	s.deliver()
	return err
}

// handle runs the call and writes the answer, or returns the error to answer.
func (s *Sim) handle(w http.ResponseWriter, r *http.Request, c *call) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		c.route(r, nil)
		return fail("RequestEntityTooLarge", "The request is larger than %d bytes", maxBody).withStatus(http.StatusRequestEntityTooLarge)
	}
	if err := c.route(r, body); err != nil {
		return err
	}
	op, err := c.lookup()
	if err != nil {
		return err
	}
	if err := c.identify(r); err != nil {
		return err
	}
	if err := s.throttle(c); err != nil {
		return err
	}
	hit := s.faultFor(c)
	if err := hit.before(r.Context(), s.opt.Clock, c); err != nil {
		return err
	}
	answer, err := s.run(c, op, r)
	if err != nil {
		return err
	}
	if hit.after(r.Context()) {
		return errHangUp
	}
	return c.answer(w, answer)
}

// run executes the operation under the right lock.
func (s *Sim) run(c *call, op *operation, r *http.Request) (any, error) {
	if err := s.enter(c, op); err != nil {
		return nil, err
	}
	if op.wait != nil {
		return op.wait(s, c, r)
	}
	if op.writes {
		s.mu.Lock()
		defer s.mu.Unlock()
		// The world may have moved on while the call waited for its turn;
		// what it does, it does now.
		c.at = s.now()
		s.catchUp(c.at)
	} else {
		s.mu.RLock()
		defer s.mu.RUnlock()
	}
	if op.query != nil {
		c.x = newXML()
		if err := op.query(c); err != nil {
			c.x.free()
			c.x = nil
			return nil, err
		}
		return nil, nil
	}
	v, err := op.json(c)
	if err != nil {
		return nil, err
	}
	// Answers may refer to the world, so they are encoded under the lock.
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer of %s: %w", c.action, err)
	}
	return json.RawMessage(raw), nil
}

// enter finds the account and region, brings the world up to date and checks
// the permission of operations that leave it to us.
func (s *Sim) enter(c *call, op *operation) error {
	ready := func() bool {
		a := s.st.Accounts[c.who.Account]
		return a != nil && a.Regions[c.region] != nil && s.nextDue.Load() > c.at.UnixNano()
	}
	s.mu.RLock()
	ok := ready()
	s.mu.RUnlock()
	if !ok {
		s.mu.Lock()
		s.catchUp(c.at)
		_, err := s.region(s.account(c.who.Account), c.region)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	c.acct = s.st.Accounts[c.who.Account]
	c.reg = c.acct.Regions[c.region]
	if op.authorizes {
		return nil
	}
	if err := c.allow(c.iamAction(), "*", nil); err != nil {
		return err
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	return nil
}

// lookup finds the operation.
func (c *call) lookup() (*operation, error) {
	if op := operations[c.service][c.action]; op != nil {
		return op, nil
	}
	switch c.proto {
	case protoEC2, protoQuery:
		return nil, fail("InvalidAction", "The action %s is not valid for this web service.", c.action)
	case protoREST:
		return nil, fail("UnknownOperationException", "The simulator has no operation %s.", c.action).withStatus(http.StatusNotFound)
	}
	return nil, fail("UnknownOperationException", "The simulator has no operation %s.", c.action)
}

// route finds out which service, operation and region a request is for.
func (c *call) route(r *http.Request, body []byte) error {
	cred := credential(r)
	c.service, c.region = cred.service, cred.region
	if c.region == "" || globalService(c.service) {
		c.region = c.opt.Region
	}
	c.body = body
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		prefix, action, _ := strings.Cut(target, ".")
		t, ok := targets[strings.SplitN(prefix, "_", 2)[0]]
		if !ok {
			c.proto = protoJSON11
			return fail("UnknownOperationException", "The simulator has no service for the target %s.", target)
		}
		c.service, c.proto, c.action = t.service, t.proto, action
		if c.service == "pricing" {
			c.region = c.opt.Region
		}
		return nil
	}
	if action, rest, ok := restRoute(r); ok {
		c.proto, c.service, c.action, c.rest, c.form = protoREST, action.service, action.name, rest, r.URL.Query()
		return nil
	}
	return c.routeQuery(r, body)
}

func (c *call) routeQuery(r *http.Request, body []byte) error {
	c.proto = protoEC2
	if c.service != "" && c.service != "ec2" {
		c.proto = protoQuery
	}
	text := r.URL.RawQuery
	if r.Method == http.MethodPost {
		text = string(body)
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return fail("MalformedQueryString", "The query string contains a syntax error: %v", err)
	}
	q, perr := parseQuery(values)
	if perr != nil {
		return perr
	}
	c.q, c.action = q, q.str("Action")
	if c.service == "" {
		c.service = versions[q.str("Version")]
		if c.service != "ec2" && c.service != "" {
			c.proto = protoQuery
		}
	}
	if c.action == "" {
		return fail("MissingAction", "The request is missing an action or operation parameter.")
	}
	if c.service == "sqs" {
		c.body = c.sqsBody()
	}
	if c.service == "" {
		return fail("InvalidAction", "No service is known for action %s; the request has neither a signature nor a known Version.", c.action)
	}
	return nil
}

func globalService(service string) bool {
	return service == "iam" || service == "pricing"
}

// A client that is told its answer before it has finished with its request can
// lose the connection: the AWS SDK for Go v2 closes the request's body as soon
// as it sees the header, and net/http, if it has not looked at the end of that
// body by then, takes that for an error. Small answers have arrived as a whole
// by then; large ones are held back for a moment, which is still far quicker
// than AWS.
const (
	largeAnswer = 8 << 10
	holdBack    = 3 * time.Millisecond
)

// answer writes a successful reply.
func (c *call) answer(w http.ResponseWriter, v any) error {
	switch c.proto {
	case protoEC2:
		defer c.x.free()
		if len(c.x.b) > largeAnswer {
			time.Sleep(holdBack)
		}
		w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
		head := `<?xml version="1.0" encoding="UTF-8"?>` + "\n<" + c.action + `Response xmlns="` + namespaces["ec2"] + `"><requestId>` + c.requestID + "</requestId>"
		_, _ = io.WriteString(w, head)
		c.x.close(c.action + "Response")
		_, _ = w.Write(c.x.b)
	case protoQuery:
		if c.service == "sqs" {
			c.x = newXML()
			if err := c.sqsXML(v); err != nil {
				return err
			}
		}
		defer c.x.free()
		w.Header().Set("Content-Type", "text/xml")
		c.x.raw("</" + c.action + "Result><ResponseMetadata><RequestId>" + c.requestID + "</RequestId></ResponseMetadata></" + c.action + "Response>")
		_, _ = io.WriteString(w, "<"+c.action+`Response xmlns="`+namespaces[c.service]+`"><`+c.action+"Result>")
		_, _ = w.Write(c.x.b)
	default:
		w.Header().Set("Content-Type", c.jsonType())
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encoding the answer of %s: %w", c.action, err)
		}
		if len(raw) > largeAnswer {
			time.Sleep(holdBack)
		}
		_, _ = w.Write(raw)
	}
	return nil
}

func (c *call) jsonType() string {
	switch c.proto {
	case protoJSON10:
		return "application/x-amz-json-1.0"
	case protoJSON11:
		return "application/x-amz-json-1.1"
	}
	return "application/json"
}

// decode reads a JSON request.
func (c *call) decode(into any) error {
	if len(c.body) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, into); err != nil {
		return fail("SerializationException", "The request body is not valid for %s: %v", c.action, err)
	}
	return nil
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		// Only called on maps of strings, which cannot fail.
		return []byte("{}")
	}
	return raw
}
