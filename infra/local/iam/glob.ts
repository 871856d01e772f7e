/* Patterns of policies: `*` stands for any characters, `?` for one. */

/** A pattern as IAM matches it; `${*}`, `${?}` and `${$}` stand for those characters themselves. */
export function glob(pattern: string, { caseless = false } = {}): RegExp {
  const source = pattern.replace(/\$\{([*?$])\}|[*?]|[.+^${}()|[\]\\]/g, (found, literal: string | undefined) => {
    if (literal !== undefined) return `\\${literal}`;
    if (found === "*") return ".*";
    return found === "?" ? "." : `\\${found}`;
  });
  return new RegExp(`^${source}$`, caseless ? "is" : "s");
}

const PARTS = 6;

/** An ARN as the Arn operators match it: each of its six parts by itself, so that no `*` reaches over a colon of theirs. */
export function arnGlob(pattern: string): (arn: string) => boolean {
  const patterns = arnParts(pattern).map((part) => glob(part));
  return (arn) => {
    const parts = arnParts(arn);
    return parts.length === patterns.length && patterns.every((each, i) => each.test(parts[i]!));
  };
}

/** `arn`, partition, service, region, account, and all the rest. */
function arnParts(arn: string): readonly string[] {
  const parts = arn.split(":");
  return parts.length <= PARTS ? parts : [...parts.slice(0, PARTS - 1), parts.slice(PARTS - 1).join(":")];
}
