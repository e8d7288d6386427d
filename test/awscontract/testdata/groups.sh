# Node groups: managed by EKS, and plain Auto Scaling groups.
aws ec2 create-launch-template --launch-template-name nodes --launch-template-data '{"InstanceType":"m5.large","SecurityGroupIds":["sg-0abc123"],"IamInstanceProfile":{"Name":"nodes"}}' > /dev/null
aws autoscaling create-auto-scaling-group --auto-scaling-group-name workers --min-size 1 --max-size 5 \
  --launch-template LaunchTemplateName=nodes,Version='$Latest' --vpc-zone-identifier subnet-0abc123,subnet-0def456 \
  --tags Key=kubernetes.io/cluster/my-cluster,Value=owned,PropagateAtLaunch=true
[ "$(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names workers --query 'AutoScalingGroups[0].[MaxSize,LaunchTemplate.LaunchTemplateName,AvailabilityZones[1]]' --output text)" = "$(printf '5\tnodes\tus-west-2b')" ]
aws autoscaling create-auto-scaling-group --auto-scaling-group-name chosen --min-size 0 --max-size 2 --vpc-zone-identifier subnet-0abc123 --mixed-instances-policy '
  {"LaunchTemplate":{"LaunchTemplateSpecification":{"LaunchTemplateName":"nodes","Version":"$Latest"},"Overrides":[
    {"InstanceRequirements":{"VCpuCount":{"Min":2,"Max":8},"MemoryMiB":{"Min":4096},"CpuManufacturers":["intel","amd"],"BareMetal":"included"}}]}}'
[ "$(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names chosen --query 'AutoScalingGroups[0].MixedInstancesPolicy.LaunchTemplate.Overrides[0].InstanceRequirements.[VCpuCount.Max,MemoryMiB.Min,CpuManufacturers[1],BareMetal]' --output text)" = "$(printf '8\t4096\tamd\tincluded')" ]
aws autoscaling delete-auto-scaling-group --auto-scaling-group-name chosen
image=$(aws ec2 describe-images --filters 'Name=name,Values=amazon-eks-node-al2023-x86_64-standard-1.34-*' --query 'Images[0].ImageId' --output text)
aws autoscaling create-launch-configuration --launch-configuration-name old --image-id "$image" --instance-type m5.large --security-groups sg-0abc123 \
  --iam-instance-profile nodes --block-device-mappings 'DeviceName=/dev/xvda,Ebs={VolumeSize=80,VolumeType=gp3,Encrypted=true}' \
  --metadata-options HttpTokens=required,HttpPutResponseHopLimit=2
[ "$(aws autoscaling describe-launch-configurations --launch-configuration-names old --query 'LaunchConfigurations[0].[InstanceType,SecurityGroups[0],BlockDeviceMappings[0].Ebs.VolumeSize,MetadataOptions.HttpTokens]' --output text)" = "$(printf 'm5.large\tsg-0abc123\t80\trequired')" ]
aws autoscaling create-auto-scaling-group --auto-scaling-group-name aged --min-size 0 --max-size 2 --launch-configuration-name old --vpc-zone-identifier subnet-0abc123
[ "$(aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names aged --query 'AutoScalingGroups[0].LaunchConfigurationName' --output text)" = old ]
aws autoscaling delete-auto-scaling-group --auto-scaling-group-name aged
aws autoscaling delete-launch-configuration --launch-configuration-name old
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
