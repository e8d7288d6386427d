# Queues and event rules.
url=$(aws sqs create-queue --queue-name q --attributes MessageRetentionPeriod=300 --query QueueUrl --output text)
[ "$url" = "$(aws sqs get-queue-url --queue-name q --query QueueUrl --output text)" ]
aws sqs list-queues --queue-name-prefix q --query 'QueueUrls' --output text
aws sqs set-queue-attributes --queue-url $url --attributes VisibilityTimeout=0
aws sqs get-queue-attributes --queue-url $url --attribute-names All --query Attributes.QueueArn --output text
aws sqs tag-queue --queue-url $url --tags a=b
aws sqs list-queue-tags --queue-url $url --query Tags.a --output text
aws sqs send-message --queue-url $url --message-body '{"a":"<b>"}' > /dev/null
aws sqs send-message-batch --queue-url $url --entries Id=1,MessageBody=one Id=2,MessageBody=two --query 'Successful[].Id' --output text
receipt=$(aws sqs receive-message --queue-url $url --attribute-names SentTimestamp --query 'Messages[0].ReceiptHandle' --output text)
aws sqs change-message-visibility --queue-url $url --receipt-handle "$receipt" --visibility-timeout 0
aws sqs delete-message --queue-url $url --receipt-handle "$receipt"
receipt=$(aws sqs receive-message --queue-url $url --query 'Messages[0].ReceiptHandle' --output text)
aws sqs delete-message-batch --queue-url $url --entries "[{\"Id\":\"1\",\"ReceiptHandle\":\"$receipt\"}]" > /dev/null
aws sqs purge-queue --queue-url $url
if aws sqs get-queue-url --queue-name none 2> err.txt; then exit 1; fi
grep -q NonExistentQueue err.txt || grep -q QueueDoesNotExist err.txt

aws events put-rule --name r --event-pattern '{"source":["my.app"],"detail":{"n":[{"prefix":"a"}]}}' > /dev/null
aws events put-targets --rule r --targets Id=1,Arn=arn:aws:sqs:us-west-2:111122223333:q > /dev/null
aws events describe-rule --name r --query State --output text
aws events list-rules --name-prefix r --query 'Rules[].Name' --output text
aws events list-targets-by-rule --rule r --query 'Targets[].Arn' --output text
aws events put-events --entries '[{"Source":"my.app","DetailType":"t","Detail":"{\"n\":\"abc\"}"},{"Source":"my.app","DetailType":"t","Detail":"{\"n\":\"xyz\"}"}]' > /dev/null
[ "$(aws sqs get-queue-attributes --queue-url $url --attribute-names All --query Attributes.ApproximateNumberOfMessages --output text)" = 1 ]
aws events remove-targets --rule r --ids 1 > /dev/null
aws events delete-rule --name r
aws sqs delete-queue --queue-url $url
echo done
