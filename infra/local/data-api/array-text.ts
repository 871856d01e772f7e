import { ApiFailure } from "./failure.ts";

/** The elements of a one-dimensional array in PostgreSQL's text form. UnsupportedResultException for more dimensions. */
export function parseArray(text: string): (string | null)[] {
  // An array whose first index is not 1 begins with its bounds: [0:1]={a,b}.
  const body = text.startsWith("[") ? text.slice(text.indexOf("=") + 1) : text;
  if (body === "{}") return [];
  const elements: (string | null)[] = [];
  const element = /"((?:[^"\\]|\\[\s\S])*)"|([^",{}]+)|(\{)/gy;
  let at = 1;
  while (at < body.length) {
    element.lastIndex = at;
    const match = element.exec(body);
    if (!match || match[3])
      throw new ApiFailure("UnsupportedResultException", "The result contains a multidimensional array");
    const [all, quoted, plain] = match;
    if (quoted !== undefined) elements.push(quoted.replace(/\\([\s\S])/g, "$1"));
    else elements.push(plain === "NULL" ? null : (plain ?? ""));
    at += all.length + 1;
  }
  return elements;
}
