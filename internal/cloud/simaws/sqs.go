package simaws

import (
	"crypto/md5"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type queue struct {
	Name       string
	Attributes map[string]string
	Tags       map[string]string
	Created    time.Time
	Messages   []*message
}

type message struct {
	ID, Body, Receipt        string
	Attributes               map[string]any
	Sent, VisibleAt, FirstAt time.Time
	Received                 int
}

// maxQueued bounds a queue that nobody reads; the oldest message goes first.
const maxQueued = 120000

var queueDefaults = map[string]string{
	"VisibilityTimeout": "30", "MessageRetentionPeriod": "345600", "DelaySeconds": "0", "MaximumMessageSize": "262144",
	"ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true",
}

func (q *queue) seconds(name string) time.Duration {
	n, err := strconv.Atoi(q.Attributes[name])
	if err != nil {
		n, _ = strconv.Atoi(queueDefaults[name])
	}
	return time.Duration(n) * time.Second
}

// expire drops messages older than the retention period.
func (q *queue) expire(now time.Time) {
	limit := now.Add(-q.seconds("MessageRetentionPeriod"))
	q.Messages = slices.DeleteFunc(q.Messages, func(m *message) bool { return m.Sent.Before(limit) })
}

func (p place) queueARN(name string) string { return p.arn("sqs", name) }

// enqueue puts a message into a queue and wakes who waits for one.
func (p place) enqueue(q *queue, m *message) {
	q.expire(m.Sent)
	if len(q.Messages) >= maxQueued {
		q.Messages = q.Messages[1:]
	}
	q.Messages = append(q.Messages, m)
	p.waiters.wake(p.queueARN(q.Name))
}

// waiters are the long polls that sleep, by queue.
type waiters struct {
	mu    sync.Mutex
	chans map[string]chan struct{}
}

func newWaiters() *waiters { return &waiters{chans: map[string]chan struct{}{}} }

func (w *waiters) on(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chans[key] == nil {
		w.chans[key] = make(chan struct{})
	}
	return w.chans[key]
}

func (w *waiters) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch := w.chans[key]; ch != nil {
		close(ch)
		delete(w.chans, key)
	}
}

// sqsInput has the fields of all requests.
type sqsInput struct {
	QueueName, QueueUrl, QueueNamePrefix        string
	Attributes                                  map[string]string
	AttributeNames, MessageSystemAttributeNames []string
	Tags                                        map[string]string
	MessageBody, ReceiptHandle                  string
	MessageAttributes                           map[string]any
	DelaySeconds                                *int
	MaxNumberOfMessages, WaitTimeSeconds        *int
	MaxResults                                  *int
	NextToken                                   string
	VisibilityTimeout                           *int
	Entries                                     []sqsEntry
}

type sqsEntry struct {
	Id, MessageBody, ReceiptHandle string
	MessageAttributes              map[string]any
	DelaySeconds                   *int
}

func errQueue() *apiError {
	return fail("QueueDoesNotExist", "The specified queue does not exist.")
}

// sqsQueryCode is the name an error has in the older protocol.
func sqsQueryCode(code string) string {
	if code == "QueueDoesNotExist" {
		return "AWS.SimpleQueueService.NonExistentQueue"
	}
	return code
}

// sqsOn decodes a request, finds its queue and checks the permission.
func (c *call) sqsOn() (sqsInput, *queue, error) {
	var in sqsInput
	if err := c.decode(&in); err != nil {
		return in, nil, err
	}
	name := in.QueueName
	if in.QueueUrl != "" {
		name = in.QueueUrl[strings.LastIndexByte(in.QueueUrl, '/')+1:]
	}
	if name == "" {
		return in, nil, fail("MissingParameter", "The request must contain the parameter QueueUrl.")
	}
	if err := c.allow("sqs:"+c.action, c.queueARN(name), nil); err != nil {
		return in, nil, err
	}
	q := c.reg.Queues.get(name)
	if q == nil {
		return in, nil, errQueue()
	}
	return in, q, nil
}

func (c *call) queueURL(name string) string { return "http://" + c.host + "/" + c.acct.ID + "/" + name }

func createQueue(c *call) (any, error) {
	var in sqsInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if err := c.allow("sqs:CreateQueue", c.queueARN(in.QueueName), nil); err != nil {
		return nil, err
	}
	if n := strings.TrimSuffix(in.QueueName, ".fifo"); n == "" || len(in.QueueName) > 80 || strings.Trim(n, queueNameChars) != "" {
		return nil, fail("InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	if old := c.reg.Queues.get(in.QueueName); old != nil {
		for k, v := range in.Attributes {
			if old.Attributes[k] != v {
				return nil, fail("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", k)
			}
		}
	} else {
		c.reg.Queues.put(in.QueueName, &queue{Name: in.QueueName, Attributes: orEmpty(in.Attributes), Tags: orEmpty(in.Tags), Created: c.at})
	}
	return map[string]string{"QueueUrl": c.queueURL(in.QueueName)}, nil
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

const queueNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func getQueueURL(c *call) (any, error) {
	_, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	return map[string]string{"QueueUrl": c.queueURL(q.Name)}, nil
}

// maxQueueList is how many queues SQS lists at a time.
const maxQueueList = 1000

func listQueues(c *call) (any, error) {
	var in sqsInput
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	urls := []string{}
	for q := range c.reg.Queues.each {
		if strings.HasPrefix(q.Name, in.QueueNamePrefix) {
			urls = append(urls, c.queueURL(q.Name))
		}
	}
	part, next, err := pageOf(urls, paging{size: in.MaxResults, token: in.NextToken, limit: maxQueueList, bad: fail("InvalidParameterValue", "")})
	if err != nil {
		return nil, err
	}
	if in.MaxResults == nil {
		// Without a page size SQS gives the first thousand and no token.
		next = ""
	}
	return listing("QueueUrls", part, "NextToken", next), nil
}

func deleteQueue(c *call) (any, error) {
	_, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	c.reg.Queues.delete(q.Name)
	return struct{}{}, nil
}

func purgeQueue(c *call) (any, error) {
	_, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	q.Messages = nil
	return struct{}{}, nil
}

func getQueueAttributes(c *call) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	visible, hidden := 0, 0
	for _, m := range q.Messages {
		if m.VisibleAt.After(c.at) {
			hidden++
		} else {
			visible++
		}
	}
	all := map[string]string{
		"QueueArn": c.queueARN(q.Name), "ApproximateNumberOfMessages": strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(hidden), "ApproximateNumberOfMessagesDelayed": "0",
		"CreatedTimestamp": strconv.FormatInt(q.Created.Unix(), 10),
	}
	for k, v := range queueDefaults {
		all[k] = v
	}
	for k, v := range q.Attributes {
		all[k] = v
	}
	out := map[string]string{}
	for k, v := range all {
		if slices.Contains(in.AttributeNames, "All") || slices.Contains(in.AttributeNames, k) {
			out[k] = v
		}
	}
	return map[string]any{"Attributes": out}, nil
}

func setQueueAttributes(c *call) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	for k, v := range in.Attributes {
		q.Attributes[k] = v
	}
	return struct{}{}, nil
}

func listQueueTags(c *call) (any, error) {
	_, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	return map[string]any{"Tags": q.Tags}, nil
}

func tagQueue(c *call) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	for k, v := range in.Tags {
		q.Tags[k] = v
	}
	return struct{}{}, nil
}

func md5Hex(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// send stores one message.
func (c *call) send(q *queue, e sqsEntry) (map[string]string, *apiError) {
	if e.MessageBody == "" {
		return nil, fail("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	if len(e.MessageBody) > 262144 {
		return nil, fail("InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes.")
	}
	delay := q.seconds("DelaySeconds")
	if e.DelaySeconds != nil {
		delay = time.Duration(*e.DelaySeconds) * time.Second
	}
	m := &message{ID: c.uuid(), Body: e.MessageBody, Attributes: e.MessageAttributes, Sent: c.at, VisibleAt: c.at.Add(delay)}
	c.enqueue(q, m)
	return map[string]string{"MessageId": m.ID, "MD5OfMessageBody": md5Hex(m.Body)}, nil
}

func sendMessage(c *call) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	out, serr := c.send(q, sqsEntry{MessageBody: in.MessageBody, MessageAttributes: in.MessageAttributes, DelaySeconds: in.DelaySeconds})
	if serr != nil {
		return nil, serr
	}
	return out, nil
}

// batch applies do to the entries of a batch request.
func (c *call) batch(do func(*queue, sqsEntry) (map[string]string, *apiError)) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	if len(in.Entries) == 0 {
		return nil, fail("EmptyBatchRequest", "There should be at least one entry in the request.")
	}
	if len(in.Entries) > 10 {
		return nil, fail("TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent %d.", len(in.Entries))
	}
	good, bad := []map[string]string{}, []map[string]any{}
	for _, e := range in.Entries {
		out, err := do(q, e)
		if err != nil {
			bad = append(bad, map[string]any{"Id": e.Id, "Code": err.Code, "Message": err.Message, "SenderFault": true})
			continue
		}
		out["Id"] = e.Id
		good = append(good, out)
	}
	return map[string]any{"Successful": good, "Failed": bad}, nil
}

func sendMessageBatch(c *call) (any, error) { return c.batch(c.send) }

// remove deletes the message a receipt stands for. Deleting twice succeeds, as
// SQS has it.
func (c *call) remove(q *queue, e sqsEntry) (map[string]string, *apiError) {
	if !strings.HasPrefix(e.ReceiptHandle, "r/") {
		return nil, fail("ReceiptHandleIsInvalid", "The input receipt handle \"%s\" is not a valid receipt handle.", e.ReceiptHandle)
	}
	q.Messages = slices.DeleteFunc(q.Messages, func(m *message) bool { return m.Receipt == e.ReceiptHandle })
	return map[string]string{}, nil
}

func deleteMessage(c *call) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	if _, rerr := c.remove(q, sqsEntry{ReceiptHandle: in.ReceiptHandle}); rerr != nil {
		return nil, rerr
	}
	return struct{}{}, nil
}

func deleteMessageBatch(c *call) (any, error) { return c.batch(c.remove) }

func changeMessageVisibility(c *call) (any, error) {
	in, q, err := c.sqsOn()
	if err != nil {
		return nil, err
	}
	if in.VisibilityTimeout == nil {
		return nil, fail("MissingParameter", "The request must contain the parameter VisibilityTimeout.")
	}
	for _, m := range q.Messages {
		if m.Receipt == in.ReceiptHandle && m.Receipt != "" {
			m.VisibleAt = c.at.Add(time.Duration(*in.VisibilityTimeout) * time.Second)
			c.waiters.wake(c.queueARN(q.Name))
		}
	}
	return struct{}{}, nil
}

// sqsOperations is the SQS part of the operation table.
var sqsOperations = map[string]*operation{
	"CreateQueue":             {json: createQueue, writes: true, authorizes: true},
	"GetQueueUrl":             {json: getQueueURL, authorizes: true},
	"ListQueues":              {json: listQueues},
	"DeleteQueue":             {json: deleteQueue, writes: true, authorizes: true},
	"PurgeQueue":              {json: purgeQueue, writes: true, authorizes: true},
	"GetQueueAttributes":      {json: getQueueAttributes, authorizes: true},
	"SetQueueAttributes":      {json: setQueueAttributes, writes: true, authorizes: true},
	"ListQueueTags":           {json: listQueueTags, authorizes: true},
	"TagQueue":                {json: tagQueue, writes: true, authorizes: true},
	"SendMessage":             {json: sendMessage, writes: true, authorizes: true},
	"SendMessageBatch":        {json: sendMessageBatch, writes: true, authorizes: true},
	"ReceiveMessage":          {wait: receiveMessage, writes: true, authorizes: true},
	"DeleteMessage":           {json: deleteMessage, writes: true, authorizes: true},
	"DeleteMessageBatch":      {json: deleteMessageBatch, writes: true, authorizes: true},
	"ChangeMessageVisibility": {json: changeMessageVisibility, writes: true, authorizes: true},
}
