import {
  type ColumnNode,
  expressionBuilder,
  type FunctionNode,
  type OperationNode,
  OperationNodeTransformer,
  PostgresQueryCompiler,
  type PrimitiveValueListNode,
  type RawNode,
  type ReferenceNode,
  sql,
  TableNode,
  ValueListNode,
  ValueNode,
} from "kysely";
import { MillraceError } from "../errors.ts";

/**
 * A readiness condition as text with its values inlined as literals: an index predicate takes no parameters, and the
 * planner uses a partial index only where a query repeats its predicate
 * (https://www.postgresql.org/docs/17/indexes-partial.html).
 */
export interface ReadyText {
  /** The condition; bare column names. */
  readonly text: string;
  /** The condition for a table aliased `t`. */
  readonly aliased: string;
  /** The names that the condition mentions: its columns, and in raw fragments perhaps more. */
  readonly names: readonly string[];
}

/** Functions and words that change with time or session; PostgreSQL refuses them in an index predicate. */
const NOT_IMMUTABLE =
  /\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|current_timestamp|current_date|current_time|localtimestamp|localtime|random|gen_random_uuid|nextval|currval|txid_current|current_setting|age)\b/i;

/** Inlines every value of `ready`, lists the columns, and refuses what cannot be an index predicate. */
export function readyText(name: string, ready: (eb: never) => unknown): ReadyText {
  const build = ready as (eb: unknown) => { toOperationNode(): OperationNode };
  const node = build(expressionBuilder<never, never>()).toOperationNode();
  const names = new Set<string>();
  const bare = compile(new Inliner(undefined, names).transformNode(node));
  const changing = NOT_IMMUTABLE.exec(withoutStrings(bare));
  if (changing) throw new MillraceError("READY_NOT_IMMUTABLE", { name, function: changing[1] });
  if (names.size === 0) throw new MillraceError("READY_EMPTY", { name });
  return { text: bare, aliased: compile(new Inliner("t", new Set()).transformNode(node)), names: [...names].sort() };
}

function compile(node: OperationNode): string {
  return new PostgresQueryCompiler().compileQuery(
    sql`${{ toOperationNode: () => node } as never}`.toOperationNode() as never,
    {
      queryId: "ready",
    },
  ).sql;
}

const withoutStrings = (text: string) => text.replace(/'(?:[^']|'')*'/g, "''");

/** Turns values into literals, collects column names, and puts an alias before bare columns. */
class Inliner extends OperationNodeTransformer {
  readonly #alias: string | undefined;
  readonly #names: Set<string>;

  constructor(alias: string | undefined, names: Set<string>) {
    super();
    this.#alias = alias;
    this.#names = names;
  }

  protected override transformValue(node: ValueNode): ValueNode {
    return ValueNode.createImmediate(plain(node.value));
  }

  protected override transformPrimitiveValueList(node: PrimitiveValueListNode): PrimitiveValueListNode {
    return ValueListNode.create(node.values.map((v) => ValueNode.createImmediate(plain(v)))) as never;
  }

  protected override transformReference(node: ReferenceNode): ReferenceNode {
    const done = super.transformReference(node);
    return this.#alias === undefined ? omitTable(done) : { ...omitTable(done), table: TableNode.create(this.#alias) };
  }

  protected override transformColumn(node: ColumnNode): ColumnNode {
    this.#names.add(node.column.name);
    return super.transformColumn(node);
  }

  protected override transformFunction(node: FunctionNode): FunctionNode {
    return super.transformFunction(node);
  }

  protected override transformRaw(node: RawNode): RawNode {
    for (const fragment of node.sqlFragments)
      for (const [word] of withoutStrings(fragment).matchAll(/[a-z_][a-z0-9_]*/gi)) this.#names.add(word.toLowerCase());
    return super.transformRaw(node);
  }
}

function omitTable(node: ReferenceNode): ReferenceNode {
  const { table: _, ...rest } = node;
  return rest;
}

/** Dates and bigints have no literal of their own in the compiler; PostgreSQL types a quoted one by its context. */
function plain(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === "bigint") return value.toString();
  return value;
}
