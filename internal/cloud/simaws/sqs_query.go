package simaws

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Older clients speak the query protocol to SQS. Their requests are turned into
// the JSON form and the answers back, so that there is one implementation.

// sqsBody builds the JSON request of a query call.
func (c *call) sqsBody() []byte {
	body := map[string]any{}
	for _, name := range []string{"QueueName", "QueueUrl", "QueueNamePrefix", "MessageBody", "ReceiptHandle", "NextToken"} {
		if c.q.has(name) {
			body[name] = c.q.str(name)
		}
	}
	for _, name := range []string{"DelaySeconds", "MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout", "MaxResults"} {
		if c.q.has(name) {
			body[name] = c.q.int(name, 0)
		}
	}
	pairs := func(name, key, value string) map[string]string {
		out := map[string]string{}
		for _, n := range c.q.items(name) {
			out[n.str(key)] = n.str(value)
		}
		return out
	}
	if c.q.has("Attribute") {
		body["Attributes"] = pairs("Attribute", "Name", "Value")
	}
	if c.q.has("Tag") {
		body["Tags"] = pairs("Tag", "Key", "Value")
	}
	if c.q.has("AttributeName") {
		body["AttributeNames"] = c.q.strs("AttributeName")
	}
	var entries []map[string]any
	for _, kind := range []string{"SendMessageBatchRequestEntry", "DeleteMessageBatchRequestEntry"} {
		for _, n := range c.q.items(kind) {
			entries = append(entries, map[string]any{"Id": n.str("Id"), "MessageBody": n.str("MessageBody"), "ReceiptHandle": n.str("ReceiptHandle")})
		}
	}
	if len(entries) > 0 {
		body["Entries"] = entries
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil
	}
	return raw
}

// sqsXML writes a JSON answer in the query form.
func (c *call) sqsXML(answer any) error {
	raw, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encoding the answer of %s: %w", c.action, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("encoding the answer of %s: %w", c.action, err)
	}
	item := map[string]string{"QueueUrls": "QueueUrl", "Messages": "Message", "Successful": c.action + "ResultEntry", "Failed": "BatchResultErrorEntry"}
	for _, k := range sortedKeys(fields) {
		switch v := fields[k].(type) {
		case []any:
			for _, one := range v {
				c.sqsElement(item[k], one)
			}
		default:
			c.sqsElement(k, v)
		}
	}
	return nil
}

func (c *call) sqsElement(name string, v any) {
	switch v := v.(type) {
	case string:
		c.x.str(name, v)
	case bool:
		c.x.bool(name, v)
	case float64:
		c.x.str(name, strconv.FormatFloat(v, 'f', -1, 64))
	case map[string]any:
		if name == "Attributes" || name == "Tags" {
			c.sqsPairs(name, v)
			return
		}
		c.x.in(name, func() {
			for _, k := range sortedKeys(v) {
				c.sqsElement(k, v[k])
			}
		})
	}
}

func (c *call) sqsPairs(name string, v map[string]any) {
	item, key := "Attribute", "Name"
	if name == "Tags" {
		item, key = "Tag", "Key"
	}
	for _, k := range sortedKeys(v) {
		c.x.in(item, func() {
			c.x.str(key, k)
			c.x.str("Value", fmt.Sprint(v[k]))
		})
	}
}
