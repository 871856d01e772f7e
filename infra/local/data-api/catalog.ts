import type { Backend } from "./backend.ts";
import type { BoundValue } from "./bind.ts";
import type { ColumnType } from "./fields.ts";
import { catalogType, knownType, type PgType } from "./pg-types.ts";
import { sqlFailure } from "./sql-error.ts";
import { type ResultColumn, Statement } from "./statement.ts";

/** What columnMetadata needs to know of a table's column. */
export interface TableColumn {
  readonly schemaName: string;
  readonly tableName: string;
  readonly notNull: boolean;
  /** Default taken from a sequence, or an identity column. */
  readonly autoIncrement: boolean;
  readonly serial: boolean;
}

/** What one database's system catalogue says, remembered. */
export interface Catalog {
  /** Types of the columns; looked up on `backend`, so that types its transaction made are seen. */
  types(backend: Backend, columns: readonly ResultColumn[]): Promise<ColumnType[]>;
  /** Undefined for what is not a table's column. */
  tableColumns(backend: Backend, columns: readonly ResultColumn[]): Promise<(TableColumn | undefined)[]>;
  /** To be called after anything that changes definitions. */
  forget(): void;
}

export function createCatalog(): Catalog {
  const types = new Map<number, PgType>();
  const tables = new Map<number, Map<number, TableColumn>>();
  const typeOf = (oid: number) => knownType(oid) ?? types.get(oid);

  async function learnTypes(backend: Backend, oids: readonly number[]): Promise<void> {
    const unknown = oids.filter((oid) => !typeOf(oid));
    for (const [oid, name, kind, element] of await ask(backend, TYPES, unknown)) {
      types.set(Number(oid), catalogType({ name: name ?? "", kind: kind ?? "", element: Number(element) }));
    }
  }

  return {
    async types(backend, columns) {
      await learnTypes(
        backend,
        columns.map(({ dataTypeID }) => dataTypeID),
      );
      return columns.map(({ dataTypeID }) => {
        const type = typeOf(dataTypeID) ?? catalogType({ name: String(dataTypeID), kind: "", element: 0 });
        return { ...type, elementType: type.travels === "array" ? typeOf(type.element) : undefined };
      });
    },
    async tableColumns(backend, columns) {
      const unknown = columns.map(({ tableID }) => tableID).filter((oid) => oid !== 0 && !tables.has(oid));
      for (const [oid, column, ...rest] of await ask(backend, COLUMNS, unknown)) {
        const known = tables.get(Number(oid)) ?? new Map<number, TableColumn>();
        tables.set(Number(oid), known.set(Number(column), tableColumn(rest)));
      }
      return columns.map(({ tableID, columnID }) => tables.get(tableID)?.get(columnID));
    },
    forget() {
      types.clear();
      tables.clear();
    },
  };
}

function tableColumn([schema, table, notNull, byDefault, identity]: readonly (string | null)[]): TableColumn {
  const serial = byDefault === "t";
  return {
    schemaName: schema ?? "",
    tableName: table ?? "",
    notNull: notNull === "t",
    autoIncrement: serial || identity === "t",
    serial,
  };
}

async function ask(
  backend: Backend,
  sql: string,
  oids: readonly number[],
): Promise<readonly (readonly (string | null)[])[]> {
  if (oids.length === 0) return [];
  const list: BoundValue = { oid: 1028, text: `{${[...new Set(oids)].join(",")}}` };
  const { rows, error } = await backend.run(new Statement(sql, [list]));
  if (error) throw sqlFailure(error);
  return rows;
}

const TYPES = `/* data-api:types */
  select oid, typname, typtype, typelem from pg_catalog.pg_type where oid = any($1)`;

const COLUMNS = `/* data-api:columns */
  select a.attrelid, a.attnum, n.nspname, c.relname, a.attnotnull,
    coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid) like 'nextval(%', false), a.attidentity <> ''
  from pg_catalog.pg_attribute a
  join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = any($1) and not a.attisdropped`;
