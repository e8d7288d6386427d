# Node groups: managed by EKS, and plain Auto Scaling groups.
aws ec2 create-launch-template --launch-template-name nodes --launch-template-data '{"InstanceType":"m5.large","SecurityGroupIds":["sg-0abc123"],"IamInstanceProfile":{"Name":"nodes"}}' > /dev/null
aws autoscaling create-auto-scaling-group --auto-scaling-group-name workers --min-size 1 --max-size 5 \
  --launch-template LaunchTemplateName=nodes,Version='$Latest' --vpc-zone-identifier subnet-0abc123,subnet-0def456 \
  --tags Key=kubernetes.io/cluster/my-cluster,Value=owned,PropagateAtLaunch=true
[ "$(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names workers --query 'AutoScalingGroups[0].[MaxSize,LaunchTemplate.LaunchTemplateName,AvailabilityZones[1]]' --output text)" = "$(printf '5\tnodes\tus-west-2b')" ]
aws eks create-nodegroup --cluster-name my-cluster --nodegroup-name web --node-role arn:aws:iam::111122223333:role/node \
  --subnets subnet-0abc123 --scaling-config minSize=1,maxSize=4,desiredSize=2 --capacity-type SPOT --instance-types m5.large m5a.large \
  --labels tier=web --taints key=tier,value=web,effect=NO_SCHEDULE > /dev/null
[ "$(aws eks list-nodegroups --cluster-name my-cluster --query nodegroups --output text)" = web ]
group=$(aws eks describe-nodegroup --cluster-name my-cluster --nodegroup-name web --query 'nodegroup.resources.autoScalingGroups[0].name' --output text)
[ "$(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names "$group" --query 'AutoScalingGroups[0].DesiredCapacity' --output text)" = 2 ]
aws eks delete-nodegroup --cluster-name my-cluster --nodegroup-name web > /dev/null
aws autoscaling delete-auto-scaling-group --auto-scaling-group-name workers
[ "$(aws autoscaling describe-auto-scaling-groups --query 'length(AutoScalingGroups)' --output text)" = 0 ]
echo done
