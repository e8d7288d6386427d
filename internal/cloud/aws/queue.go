package aws

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud"
)

// How the queue is polled: as many messages and as long a wait as SQS allows, hidden from others for as long as handling may
// take.
const (
	messagesPerCall = 10
	pollSeconds     = 20
	hiddenSeconds   = 20
)

// Queue is the interruption queue. Any number of pollers may receive from it at once.
type Queue struct {
	client *sqs.Client
	name   string
	url    atomic.Pointer[string]
}

// NewQueue is the queue of that name.
func NewQueue(client *sqs.Client, name string) *Queue { return &Queue{client: client, name: name} }

// Message is one message of the queue.
type Message struct {
	Notice cloud.Notice
	// Err says why the text is no notice. Such a message is to be deleted, since no later attempt could read it.
	Err error
	// Sent is when the message was put into the queue.
	Sent time.Time

	receipt string
}

// Receive waits for messages, up to twenty seconds. It may return none.
func (q *Queue) Receive(ctx context.Context) ([]Message, error) {
	url, err := q.address(ctx)
	if err != nil {
		return nil, err
	}
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: messagesPerCall, WaitTimeSeconds: pollSeconds, VisibilityTimeout: hiddenSeconds,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp},
	})
	if err != nil {
		return nil, readError("receive from queue "+q.name, err)
	}
	messages := make([]Message, len(out.Messages))
	for i, m := range out.Messages {
		messages[i].receipt = aws.ToString(m.ReceiptHandle)
		messages[i].Notice, messages[i].Err = ParseNotice(aws.ToString(m.Body))
		if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
			messages[i].Sent = time.UnixMilli(ms).UTC()
		}
	}
	return messages, nil
}

// Delete removes a message that has been dealt with.
func (q *Queue) Delete(ctx context.Context, m Message) error {
	url, err := q.address(ctx)
	if err != nil {
		return err
	}
	_, err = q.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String(m.receipt)})
	return writeError("delete from queue "+q.name, err)
}

// address is the queue's URL, which is asked for once.
func (q *Queue) address(ctx context.Context) (*string, error) {
	if url := q.url.Load(); url != nil {
		return url, nil
	}
	out, err := q.client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(q.name)})
	if err != nil {
		return nil, readError("find queue "+q.name, err)
	}
	q.url.Store(out.QueueUrl)
	return out.QueueUrl, nil
}

// Interrupted takes over what the interruption of a machine says of stock: its pool has none to spare. labels are the claim's.
func (p *Provider) Interrupted(labels map[string]string) {
	switch labels[karpv1.CapacityTypeLabelKey] {
	case karpv1.CapacityTypeSpot:
		p.stock.empty(pool{market: karpv1.CapacityTypeSpot, typ: labels["node.kubernetes.io/instance-type"], zone: labels["topology.kubernetes.io/zone"]})
	case karpv1.CapacityTypeReserved:
		p.stock.setReserved(map[string]int{labels[awsv1.LabelCapacityReservationID]: 0})
	}
}
