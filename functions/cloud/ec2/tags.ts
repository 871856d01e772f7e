import type { Filter, ResourceType, Tag, TagSpecification } from "@aws-sdk/client-ec2";
import type { Ec2Settings } from "./settings.ts";

/** What a tag of AWS may be long. */
const LONGEST_VALUE = 256;

interface Owned {
  readonly key: string;
  readonly tag: string;
  readonly name: string;
}

/** The tags of something that is being created; they are there as soon as it is. */
export function tagsOf({ key, tag, name }: Owned, { stack }: Ec2Settings, type: ResourceType): TagSpecification {
  return { ResourceType: type, Tags: [...stackTags(stack, name), of("millrace:owner", tag), of("millrace:key", key)] };
}

/** The tags of what comes and goes with an instance: not its owner's, who would take it for a volume of theirs. */
export function diskTags({ name }: Owned, { stack }: Ec2Settings): TagSpecification {
  return { ResourceType: "volume", Tags: stackTags(stack, name) };
}

export const ownedBy = (tag: string): Filter => ({ Name: "tag:millrace:owner", Values: [tag] });
export const madeWith = (key: string): Filter => ({ Name: "tag:millrace:key", Values: [key] });
export const ofStack = ({ stack }: Ec2Settings): Filter => ({ Name: "tag:millrace:stack", Values: [stack] });

const of = (Key: string, Value: string): Tag => ({ Key, Value });
const stackTags = (stack: string, name: string) => [
  of("millrace:stack", stack),
  of("Name", name.slice(0, LONGEST_VALUE)),
];
