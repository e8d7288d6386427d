# Launch templates, fleets, instances and what hangs on them.
q() { aws ec2 "$@" --output text; }
ami=$(aws ssm get-parameter --name /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id --query Parameter.Value --output text)
q create-launch-template --launch-template-name karpenter.k8s.aws/1 --launch-template-data "{\"ImageId\":\"$ami\",\"NetworkInterfaces\":[{\"DeviceIndex\":0,\"Groups\":[\"sg-0abc123\"]}]}" --query LaunchTemplate.LaunchTemplateId
q create-launch-template-version --launch-template-name karpenter.k8s.aws/1 --source-version 1 --launch-template-data '{"KeyName":"k"}' --query LaunchTemplateVersion.VersionNumber
q describe-launch-templates --launch-template-names karpenter.k8s.aws/1 --query 'LaunchTemplates[].LatestVersionNumber'
q describe-launch-template-versions --launch-template-name karpenter.k8s.aws/1 --versions '$Latest' --query 'LaunchTemplateVersions[].LaunchTemplateData.ImageId'
fleet=$(aws ec2 create-fleet --type instant --target-capacity-specification TotalTargetCapacity=2,DefaultTargetCapacityType=spot \
  --spot-options AllocationStrategy=price-capacity-optimized \
  --launch-template-configs '[{"LaunchTemplateSpecification":{"LaunchTemplateName":"karpenter.k8s.aws/1","Version":"$Latest"},"Overrides":[{"InstanceType":"m5.large","SubnetId":"subnet-0abc123"},{"InstanceType":"c5.large","SubnetId":"subnet-0def456","Priority":2.5}]}]' \
  --tag-specifications 'ResourceType=instance,Tags=[{Key=Name,Value=n}]')
id=$(echo "$fleet" | sed -n 's/.*"\(i-[0-9a-f]*\)".*/\1/p' | head -1)
[ -n "$id" ]
q describe-fleets --query 'Fleets[].FleetState'
q describe-instances --instance-ids $id --query 'Reservations[].Instances[].[InstanceType,State.Name,InstanceLifecycle]'
q describe-instances --filters Name=tag:Name,Values=n Name=instance-state-name,Values=pending,running --query 'length(Reservations)'
q describe-instance-status --include-all-instances --query 'InstanceStatuses[].InstanceState.Name'
q describe-instance-attribute --instance-id $id --attribute instanceType --query InstanceType.Value
q describe-volumes --filters Name=attachment.instance-id,Values=$id --query 'Volumes[].VolumeId'
q describe-network-interfaces --filters Name=attachment.instance-id,Values=$id --query 'NetworkInterfaces[].PrivateIpAddress'
q describe-spot-instance-requests --query 'SpotInstanceRequests[].State'
q create-tags --resources $id --tags Key=a,Value=b
q describe-tags --filters Name=resource-id,Values=$id --query 'Tags[].Key'
q delete-tags --resources $id --tags Key=a
q get-console-output --instance-id $id > /dev/null
q run-instances --launch-template LaunchTemplateName=karpenter.k8s.aws/1 --instance-type t3.medium --count 1 --query 'Instances[].InstanceId'
if q run-instances --launch-template LaunchTemplateName=karpenter.k8s.aws/1 --instance-type t3.medium --dry-run 2> err.txt; then exit 1; fi
grep -q DryRunOperation err.txt
q start-instances --instance-ids $id --query 'StartingInstances[].CurrentState.Name'
q reboot-instances --instance-ids $id
q stop-instances --instance-ids $id --query 'StoppingInstances[].CurrentState.Name'
if q start-instances --instance-ids $id 2> err.txt; then exit 1; fi
grep -q IncorrectInstanceState err.txt
q terminate-instances --instance-ids $id --query 'TerminatingInstances[].CurrentState.Name'
q delete-launch-template --launch-template-name karpenter.k8s.aws/1 --query LaunchTemplate.LaunchTemplateName
echo done
