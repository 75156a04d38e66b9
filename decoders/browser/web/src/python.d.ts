/** A table in Python: `build.mjs` takes the tuples of whole numbers of its lines. */
declare module "*.py" {
  const rows: readonly (readonly number[])[];
  export default rows;
}
