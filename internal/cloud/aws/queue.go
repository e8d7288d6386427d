package aws

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
)

// How the queue is polled: as many messages and as long a wait as SQS allows, hidden from others for as long as handling may
// take.
const (
	messagesPerCall = 10
	pollSeconds     = 20
	hiddenSeconds   = 20
)

var _ cloud.Inbox = (*Queue)(nil)

// Queue is the interruption queue. Any number of pollers may receive from it at once.
type Queue struct {
	client *sqs.Client
	name   string
	url    atomic.Pointer[string]
}

// NewQueue is the queue of that name.
func NewQueue(client *sqs.Client, name string) *Queue { return &Queue{client: client, name: name} }

// Receive implements cloud.Inbox: it waits for up to twenty seconds.
func (q *Queue) Receive(ctx context.Context) ([]cloud.Message, error) {
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
	messages := make([]cloud.Message, len(out.Messages))
	for i, m := range out.Messages {
		messages[i].Receipt = aws.ToString(m.ReceiptHandle)
		messages[i].Notice, messages[i].Err = ParseNotice(aws.ToString(m.Body))
		if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
			messages[i].Sent = time.UnixMilli(ms).UTC()
		}
	}
	return messages, nil
}

// Delete implements cloud.Inbox.
func (q *Queue) Delete(ctx context.Context, m cloud.Message) error {
	url, err := q.address(ctx)
	if err != nil {
		return err
	}
	_, err = q.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String(m.Receipt)})
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

// Interrupted takes over what the interruption of an instance says of stock: its pool has none to spare. labels are the claim's.
func (p *Provider) Interrupted(labels map[string]string) {
	switch labels[karpv1.CapacityTypeLabelKey] {
	case karpv1.CapacityTypeSpot:
		p.stock.Empty(kit.Pool{CapacityType: karpv1.CapacityTypeSpot, Type: labels[corev1.LabelInstanceTypeStable], Zone: labels[corev1.LabelTopologyZone]})
	case karpv1.CapacityTypeReserved:
		p.stock.SetReserved(map[string]int{labels[awsv1.LabelCapacityReservationID]: 0})
	}
}
