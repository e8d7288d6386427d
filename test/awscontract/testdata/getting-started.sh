# The AWS commands of getting-started texts, as they stand there.
export KARPENTER_NAMESPACE="kube-system"
export KARPENTER_VERSION="0.35.0"
export CLUSTER_NAME="my-cluster"
export AWS_ACCOUNT_ID=$(aws sts get-caller-identity --query Account --output text)
export AWS_REGION="us-west-2"
export TEMPOUT=$(mktemp)
echo "account $AWS_ACCOUNT_ID"

cat <<EOF > node-trust-policy.json
{
  "Version": "2012-10-17",
  "Statement": [
    {
      "Effect": "Allow",
      "Principal": {
        "Service": "ec2.amazonaws.com"
      },
      "Action": "sts:AssumeRole"
    }
  ]
}
EOF

aws iam create-role \
  --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
  --assume-role-policy-document file://node-trust-policy.json

# Attach required policies to the node role
aws iam attach-role-policy --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
  --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy
aws iam attach-role-policy --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
  --policy-arn arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy
aws iam attach-role-policy --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
  --policy-arn arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly
aws iam attach-role-policy --role-name "KarpenterNodeRole-${CLUSTER_NAME}" \
  --policy-arn arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore

# Create instance profile for Karpenter nodes
aws iam create-instance-profile --instance-profile-name "KarpenterNodeInstanceProfile-${CLUSTER_NAME}"
aws iam add-role-to-instance-profile --instance-profile-name "KarpenterNodeInstanceProfile-${CLUSTER_NAME}" \
  --role-name "KarpenterNodeRole-${CLUSTER_NAME}"

# Tag subnets for Karpenter discovery
aws ec2 create-tags --resources subnet-0abc123 subnet-0def456 \
  --tags Key=karpenter.sh/discovery,Value=my-cluster

# Tag security groups for Karpenter discovery
aws ec2 create-tags --resources sg-0abc123 \
  --tags Key=karpenter.sh/discovery,Value=my-cluster

# What the texts pass on to helm.
aws eks describe-cluster --name ${CLUSTER_NAME} --query "cluster.endpoint" --output text

# What came of it.
aws iam get-instance-profile --instance-profile-name "KarpenterNodeInstanceProfile-${CLUSTER_NAME}" --query 'InstanceProfile.Roles[0].RoleName' --output text
echo subnets $(aws ec2 describe-subnets --subnet-ids subnet-0abc123 subnet-0def456 --query 'Subnets[].Tags[?Key==`karpenter.sh/discovery`].Value' --output text)
echo group $(aws ec2 describe-security-groups --group-ids sg-0abc123 --query 'SecurityGroups[].Tags[?Key==`karpenter.sh/discovery`].Value' --output text)
