# Roles, policies, instance profiles, identities.
q() { aws iam "$@" --output text > /dev/null; }
cat > trust.json <<'EOF'
{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}
EOF
cat > policy.json <<'EOF'
{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:DescribeInstances","Resource":"*"}]}
EOF
q create-role --role-name r --assume-role-policy-document file://trust.json
q get-role --role-name r
q list-roles
arn=$(aws iam create-policy --policy-name p --policy-document file://policy.json --query Policy.Arn --output text)
q list-policies --scope Local
q create-policy-version --policy-arn $arn --policy-document file://policy.json --set-as-default
q get-policy --policy-arn $arn
q get-policy-version --policy-arn $arn --version-id v2
q attach-role-policy --role-name r --policy-arn $arn
q list-attached-role-policies --role-name r
q put-role-policy --role-name r --policy-name in --policy-document file://policy.json
q get-role-policy --role-name r --policy-name in
q list-role-policies --role-name r
q create-instance-profile --instance-profile-name ip --path /karpenter/ --tags Key=a,Value=b
q add-role-to-instance-profile --instance-profile-name ip --role-name r
q get-instance-profile --instance-profile-name ip
q tag-instance-profile --instance-profile-name ip --tags Key=c,Value=d
q list-instance-profile-tags --instance-profile-name ip
q list-instance-profiles --path-prefix /karpenter/
q list-instance-profiles-for-role --role-name r
q create-service-linked-role --aws-service-name spot.amazonaws.com

# What a role may do is what its policies say.
creds=$(aws sts assume-role --role-arn arn:aws:iam::111122223333:role/r --role-session-name session --query 'Credentials.[AccessKeyId,SecretAccessKey,SessionToken]' --output text)
aws sts assume-role-with-web-identity --role-arn arn:aws:iam::111122223333:role/r --role-session-name session --web-identity-token token-of-some-length > /dev/null
as_role() { (read -r AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN <<< "$creds"; export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN; aws "$@"); }
as_role sts get-caller-identity --query Arn --output text
as_role ec2 describe-instances > /dev/null
if as_role ec2 describe-subnets 2> err.txt; then exit 1; fi
grep -q UnauthorizedOperation err.txt

q remove-role-from-instance-profile --instance-profile-name ip --role-name r
q delete-instance-profile --instance-profile-name ip
q delete-role-policy --role-name r --policy-name in
q detach-role-policy --role-name r --policy-arn $arn
q delete-policy --policy-arn $arn
q delete-role --role-name r
echo done
