# The AWS commands of a published walk-through, as they stand there.
# Set variables
export KARPENTER_VERSION=v0.33.0
export CLUSTER_NAME=production
export AWS_REGION=eu-west-2
export AWS_DEFAULT_REGION=$AWS_REGION # version 1 of the command reads this one
export AWS_ACCOUNT_ID=$(aws sts get-caller-identity --query Account --output text)
cp "$TESTDATA/karpenter-cloudformation.yaml" karpenter-cloudformation.yaml
# Create IAM resources
aws cloudformation deploy \
--stack-name Karpenter-${CLUSTER_NAME} \
--template-file karpenter-cloudformation.yaml \
--capabilities CAPABILITY_NAMED_IAM \
--parameter-overrides ClusterName=${CLUSTER_NAME}

# What the walk-through passes on to helm.
echo endpoint $(aws eks describe-cluster --name ${CLUSTER_NAME} --query "cluster.endpoint" --output text)

# What came of it.
stack=Karpenter-${CLUSTER_NAME}
status() { aws cloudformation describe-stacks --stack-name $stack --query 'Stacks[0].StackStatus' --output text; }
retention() { aws sqs get-queue-attributes --queue-url $(aws sqs get-queue-url --queue-name production --query QueueUrl --output text) --attribute-names All --query Attributes.MessageRetentionPeriod --output text; }
echo status $(status)
echo role $(aws iam get-role --role-name KarpenterNodeRole-${CLUSTER_NAME} --query Role.RoleName --output text)
echo queue $(aws cloudformation describe-stacks --stack-name $stack --query "Stacks[0].Outputs[?OutputKey=='QueueArn'].OutputValue" --output text)
echo retention $(retention)
echo rules $(aws events list-rules --name-prefix $stack --query 'length(Rules)' --output text)
aws iam get-policy --policy-arn arn:aws:iam::${AWS_ACCOUNT_ID}:policy/KarpenterControllerNodeLifecyclePolicy-${CLUSTER_NAME} > /dev/null

# Deploying the same again changes nothing.
aws cloudformation deploy --stack-name $stack --template-file karpenter-cloudformation.yaml \
  --capabilities CAPABILITY_NAMED_IAM --parameter-overrides ClusterName=${CLUSTER_NAME} --no-fail-on-empty-changeset
# A changed template is an update.
sed -i 's/MessageRetentionPeriod: 300/MessageRetentionPeriod: 600/' karpenter-cloudformation.yaml
aws cloudformation deploy --stack-name $stack --template-file karpenter-cloudformation.yaml --capabilities CAPABILITY_NAMED_IAM
echo status $(status)
echo retention $(retention)

aws cloudformation validate-template --template-body file://karpenter-cloudformation.yaml > /dev/null
aws cloudformation get-template-summary --template-body file://karpenter-cloudformation.yaml > /dev/null
aws cloudformation get-template --stack-name $stack > /dev/null
aws cloudformation list-stacks > /dev/null
aws cloudformation describe-stack-events --stack-name $stack > /dev/null
aws cloudformation describe-stack-resources --stack-name $stack --query 'length(StackResources)'
aws cloudformation list-stack-resources --stack-name $stack --query 'length(StackResourceSummaries)'
aws cloudformation create-change-set --stack-name $stack --change-set-name extra --use-previous-template --capabilities CAPABILITY_NAMED_IAM --parameters ParameterKey=ClusterName,ParameterValue=other > /dev/null
aws cloudformation list-change-sets --stack-name $stack > /dev/null
aws cloudformation delete-change-set --stack-name $stack --change-set-name extra
aws cloudformation delete-stack --stack-name $stack
aws cloudformation wait stack-delete-complete --stack-name $stack
aws cloudformation describe-stacks --stack-name $stack 2>&1 || true
if aws iam get-role --role-name KarpenterNodeRole-${CLUSTER_NAME} 2>/dev/null; then echo the role is still there; exit 1; fi

# Create and update without change sets; a failure is rolled back.
cat > small.yaml <<'EOF'
Resources:
  Q: {Type: AWS::SQS::Queue, Properties: {QueueName: small}}
EOF
aws cloudformation create-stack --stack-name small --template-body file://small.yaml > /dev/null
sed -i 's/QueueName: small/QueueName: small, DelaySeconds: 5/' small.yaml
aws cloudformation update-stack --stack-name small --template-body file://small.yaml > /dev/null
aws cloudformation create-stack --stack-name twice --template-body file://small.yaml > /dev/null
echo rolled back $(aws cloudformation describe-stacks --stack-name twice --query 'Stacks[0].StackStatus' --output text)
