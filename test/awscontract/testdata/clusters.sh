# Clusters, zonal shifts, fault injection experiments.
aws eks create-cluster --name new --role-arn arn:aws:iam::111122223333:role/x --resources-vpc-config subnetIds=subnet-0abc123 > /dev/null
aws eks list-clusters --query clusters --output text
arn=$(aws eks describe-cluster --name new --query cluster.arn --output text)
role=arn:aws:iam::111122223333:role/node
# Old commands do not know access entries; then they are called by hand.
if aws eks create-access-entry --cluster-name new --principal-arn $role --type EC2_LINUX > /dev/null 2> err.txt; then
  aws eks describe-access-entry --cluster-name new --principal-arn $role > /dev/null
  aws eks list-access-entries --cluster-name new > /dev/null
  aws eks delete-access-entry --cluster-name new --principal-arn $role
else
  grep -q -i 'invalid choice' err.txt
  raw() { curl -sSf -X "$1" -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20251001/us-west-2/eks/aws4_request, SignedHeaders=host, Signature=0' ${3:+-d "$3"} "$AWS_ENDPOINT_URL$2" > /dev/null; }
  raw POST /clusters/new/access-entries "{\"principalArn\":\"$role\"}"
  raw GET /clusters/new/access-entries/${role//\//%2F}
  raw GET /clusters/new/access-entries
  raw DELETE /clusters/new/access-entries/${role//\//%2F}
fi
aws arc-zonal-shift list-managed-resources --query 'items[].name' --output text
shift_id=$(aws arc-zonal-shift start-zonal-shift --resource-identifier $arn --away-from usw2-az1 --expires-in 2h --comment test --query zonalShiftId --output text)
[ "$(aws arc-zonal-shift get-managed-resource --resource-identifier $arn --query 'zonalShifts[0].awayFrom' --output text)" = usw2-az1 ]
aws arc-zonal-shift cancel-zonal-shift --zonal-shift-id $shift_id > /dev/null
aws eks delete-cluster --name new > /dev/null

template=$(aws fis create-experiment-template --client-token t --description d --role-arn $role --stop-conditions source=none \
  --targets '{"i":{"resourceType":"aws:ec2:spot-instance","resourceArns":["arn:aws:ec2:us-west-2:111122223333:instance/i-0"],"selectionMode":"ALL"}}' \
  --actions '{"a":{"actionId":"aws:ec2:send-spot-instance-interruptions","parameters":{"durationBeforeInterruption":"PT2M"},"targets":{"SpotInstances":"i"}}}' --query experimentTemplate.id --output text)
run=$(aws fis start-experiment --experiment-template-id $template --query experiment.id --output text)
aws fis get-experiment --id $run --query experiment.state.status --output text
aws fis delete-experiment-template --id $template > /dev/null
echo done
